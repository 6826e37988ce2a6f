//go:build check

package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each benchmark of the service runs once: no other test notices that its data no longer fit.
func TestBenchmarks(t *testing.T) {
	t.Parallel()
	const root = "../.."
	list := exec.CommandContext(t.Context(), "git", "grep", "--untracked", "-l", "^func Benchmark", "--", "internal/*_test.go")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"test", "-trimpath", "-vet=off", "-run", "^$", "-bench", ".", "-benchtime", "1x"}
	for file := range strings.FieldsSeq(string(files)) {
		arguments = append(arguments, "./"+filepath.Dir(file))
	}
	if arguments = slices.Compact(arguments); len(arguments) < 15 {
		t.Fatalf("only %q", arguments)
	}
	run := exec.CommandContext(t.Context(), "go", arguments...)
	run.Dir = root
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
