//go:build check

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Building a commit gives the released program, byte for byte, and the program says what it was built from.
func TestReproducibleBuild(t *testing.T) {
	t.Parallel()
	git := func(dir string, args ...string) string {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_AUTHOR_DATE=2026-01-31T08:00:00Z",
			"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_COMMITTER_DATE=2026-01-31T08:00:00Z")
		out, err := command.Output()
		if err != nil {
			t.Fatalf("git %s: %v", args[0], err)
		}
		return strings.TrimSpace(string(out))
	}
	// The sources as they are now, committed, in two folders.
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "another", "place")
	for _, name := range []string{".ci", "Makefile", "CHANGELOG.md", "go.mod", "go.sum", "api", "cmd", "docs", "gen", "internal", "migrations", "sdk/examples", "sdk/go", "sdk/released"} {
		copyTree(t, filepath.Join("..", "..", name), filepath.Join(first, name))
	}
	git(first, "init", "--quiet")
	git(first, "add", ".")
	git(first, "commit", "--quiet", "--message", "sources")
	git(first, "tag", "v1.2.3")
	if err := os.CopyFS(second, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}

	programs := make([][]byte, 2)
	for i, dir := range []string{first, second} {
		command := exec.CommandContext(t.Context(), "make", "build")
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("make build: %v\n%s", err, out)
		}
		var err error
		if programs[i], err = os.ReadFile(filepath.Join(dir, "bin", "connect-svc")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("the two programs differ")
	}
	if most := 39_100_000; len(programs[0]) > most {
		t.Errorf("the program has %d bytes, and may have %d", len(programs[0]), most)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(first, "bin", "connect-svc"), "version").Output()
	if want := "v1.2.3 (commit " + git(first, "rev-parse", "HEAD") + ")"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("version: %q, %v, want %s", out, err, want)
	}
}

// copyTree copies a file or a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var text []byte
		if text, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
