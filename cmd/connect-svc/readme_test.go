package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README's table of settings is the program's.
func TestReadmeListsEverySetting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Settings\n")
	rows := strings.Split(table, "\n")
	for _, leaf := range modelOf(t).Leaves(false) {
		if leaf.Name != "serve" {
			continue
		}
		for _, flag := range slices.Concat(leaf.AllFlags(false)...) {
			name := "`" + variable(flag.Name) + "`"
			if flag.Tag.Has("setting") && !slices.ContainsFunc(rows, func(row string) bool {
				return strings.HasPrefix(row, "|") && strings.Contains(row, name) && strings.Contains(row, flag.Default)
			}) {
				t.Errorf("no row for %s with the default %q", name, flag.Default)
			}
		}
	}
}

// What deploy/ sets are settings of the program.
func TestDeployedSettings(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, leaf := range modelOf(t).Leaves(false) {
		for _, flag := range slices.Concat(leaf.AllFlags(false)...) {
			known[variable(flag.Name)] = true
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
