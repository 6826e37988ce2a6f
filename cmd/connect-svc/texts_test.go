package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTextsExport: what it prints can be used, as it is and as the start of another language.
func TestTextsExport(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	english := succeed(t, nil, "", "texts", "export", "en")
	for name, text := range map[string]string{
		"da.toml": strings.Replace(english, `allow = "Allow"`, `allow = "Tillad"`, 1),
		"en.toml": english + succeed(t, nil, "", "texts", "export", "en", "--console"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refuse(t, []string{"CONNECT_TEXTS_DIR=" + folder}, statusUsage, []string{"--port"}, "brand", "preview", "--port", "65536") // and nothing about the texts
	for _, args := range [][]string{{"tlh"}, {"de", "--console"}, {"../en"}, {""}} {
		refuse(t, nil, statusUsage, []string{"<language>: built in are "}, append([]string{"texts", "export"}, args...)...)
	}
}
