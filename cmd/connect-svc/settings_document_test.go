package main

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	gocmp "github.com/google/go-cmp/cmp"

	"connect-svc/internal/app/settings"
)

var updateSettings = flag.Bool("update-settings", false, "write docs/settings.md")

// docs/settings.md is what the flags of serve say. `make generate` writes it.
func TestSettingsDocument(t *testing.T) {
	t.Parallel()
	leaves := modelOf(t).Leaves(false)
	serve := leaves[slices.IndexFunc(leaves, func(leaf *kong.Node) bool { return leaf.Name == "serve" })]
	var text strings.Builder
	var nothing []string // settings with a default of which nothing is a value, too
	for _, flag := range settings.Of(serve) {
		if settings.CanBeNothing(flag) {
			nothing = append(nothing, "`"+settings.Variable(flag.Name)+"`")
		}
		if says := strings.Contains(settings.Accepted(flag)+flag.Help, "othing"); flag.HasDefault && says != settings.CanBeNothing(flag) {
			t.Errorf("%s has a default, and accepts nothing or does not: not as its texts say", flag.Name)
		}
	}
	text.WriteString(`# Settings

<!-- Generated from the flags of connect-svc serve by make generate. Do not edit. -->

Each setting is an environment variable and a flag of ` + "`connect-svc serve`: `CONNECT_BASE_URL` is `--base-url`. `--config FILE`" + `
reads them from a file in UTF-8 with one line ` + "`CONNECT_NAME=value` for each; a line that starts with `#` is a comment." + ` Flags win over the
environment, and the environment over the file. A variable or line that is set to nothing, ` + "`CONNECT_NAME=`" + `, counts as not set: the file
counts, or the default. The exception is ` + strings.Join(nothing, ", ") + `, which has a default
and accepts nothing: if it is set to nothing, nothing is its value. In a URL the special characters of a user and a password are
percent-encoded: ` + "`@` is `%40`, `/` is `%2F`" + `. A setting that cannot be used stops the start with one line on standard error
and exit status 2. ` + "`connect-svc check`" + ` takes the same settings and reports every problem with them and with the services they name. Commands on the database also take
` + "`CONNECT_OPERATOR`, the name of who runs them: the audit log names it `cli:NAME`. Without it that is the system's user." + `

| setting | default | meaning | accepted |
|---|---|---|---|
`)
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, flag := range slices.Concat(serve.AllFlags(false)...) {
		if !flag.Tag.Has("setting") {
			continue
		}
		standard := "none"
		switch {
		case flag.Tag.Get("setting") == "required":
			standard = "required"
		case flag.HasDefault:
			standard = "`" + flag.Default + "`"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", settings.Variable(flag.Name), standard,
			cell.Replace(strings.Replace(flag.Help, " (required).", ".", 1)), cell.Replace(cmp.Or(settings.Accepted(flag), "a file")))
	}
	const file = "../../docs/settings.md"
	if *updateSettings {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(text.String(), string(written)); diff != "" {
		t.Errorf("run make generate (-want +got):\n%s", diff)
	}
}

// The files of deploy/ set settings that the program has.
func TestDeployedSettings(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, leaf := range modelOf(t).Leaves(false) {
		for _, flag := range slices.Concat(leaf.AllFlags(false)...) {
			known[settings.Variable(flag.Name)] = true
		}
	}
	var found int
	err := filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`CONNECT_[A-Z_]+`).FindAllString(string(text), -1) {
			found++
			if name != "CONNECT_NAME" && !known[name] { // the example of a line
				t.Errorf("%s sets %s, which is no setting", path, name)
			}
		}
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d settings, %v", found, err)
	}
}
