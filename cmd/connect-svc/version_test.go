package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/api"
)

// `version` needs no setting and no database.
func TestVersion(t *testing.T) {
	t.Parallel()
	contract := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(api.Partner)
	if contract == nil {
		t.Fatal("the partner API's document has no version")
	}
	want := map[string]string{
		"version":          built().Version,
		"commit":           built().Commit,
		"contract_version": string(contract[1]),
		"go_version":       runtime.Version(),
	}
	if diff := cmp.Diff(want, succeedJSON[map[string]string](t, nil, "", "version")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := succeed(t, nil, "", "version")
	if strings.Count(text, "\n") != 1 {
		t.Errorf("not one line: %q", text)
	}
	for name, value := range want {
		if value == "" || !strings.Contains(text, value) {
			t.Errorf("%s %q is not in %q", name, value, text)
		}
	}
	if text := succeed(t, nil, "", "--version"); text != built().String()+"\n" {
		t.Errorf("--version: %q", text)
	}
}

// A build says of which release it is ahead, and by which commit. Only a build of a release's own commit says that it is the release.
func TestVersionOfCheckout(t *testing.T) {
	t.Parallel()
	checkout := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(checkout, name), []byte(text), 0o700); err != nil { //nolint:gosec // a script
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(checkout, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".ci/version", ".ci/archived", ".gitattributes"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text))
	}
	output := func(name string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = checkout
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
			"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%s %q: %v", name, args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) string { t.Helper(); return output("git", args...) }
	commit := func() { t.Helper(); git("add", "."); git("commit", "--quiet", "--allow-empty", "--message", "change") }
	head := func() string { t.Helper(); return git("rev-parse", "HEAD") }
	is := func(want string) {
		t.Helper()
		if got := output(".ci/version"); got != want {
			t.Errorf("version %s, want %s", got, want)
		}
	}
	archived := func(want string) {
		t.Helper()
		archive, all := filepath.Join(t.TempDir(), "archive.tar"), checkout
		git("archive", "--output", archive, "HEAD")
		checkout = t.TempDir()
		output("tar", "-xf", archive)
		is(want)
		of := output(".ci/version", "commit")
		if checkout = all; of != head() {
			t.Errorf("the archive says that its commit is %q", of)
		}
	}

	write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [1.0.0] - 2026-11-22\n")
	is("v1.0.0+source")
	git("init", "--quiet")
	commit()
	is("v1.0.0+0.g" + head()[:7])
	write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- More.\n\n## [1.0.0] - 2026-11-22\n")
	commit()
	is("v1.0.0+1.g" + head()[:7])
	archived("v1.0.0+g" + head()[:7])
	git("tag", "v1.0.0")
	is("v1.0.0")
	archived("v1.0.0")
	write("CHANGELOG.md", "# Changelog\n\n## [1.1.0] - 2027-01-31\n\n## [1.0.0] - 2026-11-22\n")
	is("v1.0.0+0.g" + head()[:7] + ".dirty")
	commit()
	commit()
	is("v1.0.0+2.g" + head()[:7])
	archived("v1.0.0+2.g" + head()[:7])
	git("tag", "v1.1.0-rc.1")
	is("v1.1.0-rc.1")
	commit()
	is("v1.1.0-rc.1+1.g" + head()[:7])
}
