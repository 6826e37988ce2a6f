package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run carries out a command in a folder, at a fixed time for commits, and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "MAKELEVEL=", "MAKEFLAGS=", // `make check` runs these tests
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_AUTHOR_DATE=2026-01-31T08:00:00Z",
		"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_COMMITTER_DATE=2026-01-31T08:00:00Z")
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func succeed(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	output, err := run(t, dir, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, output)
	}
	return output
}

// checkout is a repository with the sources as they are now, committed.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	succeed(t, "../..", "sh", "-c", `git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cT - | tar -xC "$0"`, dir)
	succeed(t, dir, "git", "init", "--quiet")
	succeed(t, dir, "git", "add", ".")
	succeed(t, dir, "git", "commit", "--quiet", "--message", "sources")
	return dir
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	released := succeed(t, dir, ".ci/version", "released")
	refuses := func(why string) {
		t.Helper()
		output, err := run(t, dir, "make", "release")
		first, rest, _ := strings.Cut(output, "\n")
		if err == nil || !strings.HasPrefix(first, "make release: ") || !strings.Contains(first, why) || !strings.HasPrefix(rest, "make: ***") || strings.Contains(rest, "\n") {
			t.Errorf("%v, %q; want a line with %q", err, output, why)
		}
	}
	refuses("tag this commit " + released)
	succeed(t, dir, "git", "tag", "v0.9.0")
	refuses("v0.9.0 is not a release")
	succeed(t, dir, "git", "tag", "--delete", "v0.9.0")
	succeed(t, dir, "git", "tag", released)
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses("not a clean checkout")
}
