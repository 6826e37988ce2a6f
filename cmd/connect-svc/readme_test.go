package main

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
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

// Every command line of a document is one that the program takes: its commands, arguments and flags are those of the program.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	stands := strings.NewReplacer(`ID`, "6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10", "…", "")
	var lines int
	for _, document := range append(documents, "../../README.md") {
		text, err := os.ReadFile(filepath.Clean(document))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range codeBlock.FindAllString(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			for line := range strings.Lines(block) {
				line, _, _ = strings.Cut(line, " #")
				command := commandLine.FindString(line)
				if command == "" {
					continue
				}
				if strings.Contains(line, "xargs") {
					command += " ID"
				}
				lines++
				shell := exec.CommandContext(t.Context(), "bash", "-c", `connect-svc() { printf '%s\n' "$@"; }; `+stands.Replace(command))
				out, err := shell.Output()
				if err != nil {
					t.Errorf("%s: %s: %v", document, command, err)
					continue
				}
				parser, _, _ := newParser(&program{ctx: t.Context(), stdout: io.Discard, stderr: io.Discard})
				if _, err := parser.Parse(strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); err != nil && notTaken.MatchString(err.Error()) {
					t.Errorf("%s: %s: %v", document, command, err)
				}
			}
		}
	}
	if lines < 20 {
		t.Errorf("only %d command lines", lines)
	}
}

var (
	codeBlock   = regexp.MustCompile("(?sm)^```(?:bash)?$.*?^```$")
	commandLine = regexp.MustCompile(`connect-svc [a-z][^#|)<>&\n]*`)
	// What files there are is another matter.
	notTaken = regexp.MustCompile(`unknown flag|unexpected argument|missing flags|expected `)
)
