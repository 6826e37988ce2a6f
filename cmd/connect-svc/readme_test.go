package main

import (
	"os"
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
