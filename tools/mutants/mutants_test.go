package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each fault still has the text that it changes, once, and its test is there. Whether the test finds it, `make mutants` says.
func TestListFits(t *testing.T) {
	t.Parallel()
	const root = "../.."
	mutants, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.changed(root); err != nil {
			t.Error(err)
		}
		if m.old == m.new {
			t.Errorf("%s changes nothing", m.name)
		}
		if !hasTest(t, filepath.Join(root, m.pkg), m.test) {
			t.Errorf("%s: there is no %s in %s", m.name, m.test, m.pkg)
		}
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
