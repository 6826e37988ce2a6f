package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

var (
	// until is the mark of what is there for an older release, with the release in which it goes.
	until = regexp.MustCompile(`\buntil (\d+\.\d+\.\d+)\b`)
	// olderRelease is how comments name an older release.
	olderRelease = regexp.MustCompile(`(?i)\b(?:1\.0\.0|older (?:programs?|servers?)|(?:programs?|servers?|rows) (?:of )?before)\b`)
)

// TestCompatibilityEnds: comments that name an older release say in which release that ends, and no such release has come. A release has come
// with its heading in the changelog. Migrations stay as they are, and say nothing of that.
func TestCompatibilityEnds(t *testing.T) {
	t.Parallel()
	released := newestRelease(t)
	marks := 0
	for _, name := range tracked(t, "*.go", "*.sql") {
		if strings.HasPrefix(name, "gen/") || strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "migrations/0") {
			continue
		}
		ours := !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/testing/") && !strings.HasPrefix(name, "sdk/") && !strings.HasPrefix(name, "tools/")
		for _, p := range paragraphs(t, name) {
			marks += len(until.FindAllString(p.text, -1))
			for _, problem := range endings(p.text, released, ours) {
				t.Errorf("%s:%d: %s: %s", name, p.line, problem, p.text)
			}
		}
	}
	if marks < 15 {
		t.Errorf("%d marks were found", marks)
	}
}

// newestRelease is the number of the newest release of the changelog.
func newestRelease(t *testing.T) string {
	return regexp.MustCompile(`(?m)^## \[(\d\S*)\]`).FindStringSubmatch(read(t, "CHANGELOG.md"))[1]
}

// TestReleaseIsNamed: what operators copy from the documents of a release is of this release. Otherwise its Kubernetes base would run the program
// of the release before.
func TestReleaseIsNamed(t *testing.T) {
	t.Parallel()
	released := newestRelease(t)
	for name, pattern := range map[string]string{
		"deploy/kubernetes/kustomization.yaml": `newTag: v(\S+)`,
		"docs/install.md":                      `connect-svc(?:-sandbox)?[:_]v?(\d+\.\d+\.\d+)`,
	} {
		named := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, name), -1)
		if len(named) == 0 {
			t.Errorf("%s names no release", name)
		}
		for _, release := range named {
			if release[1] != released {
				t.Errorf("%s has %s, and the newest release is %s", name, release[0], released)
			}
		}
	}
}

// endings returns what is wrong with a comment after a release. Comments must have marks where a server of an older release can notice them.
func endings(text, released string, mustEnd bool) (problems []string) {
	marks := until.FindAllStringSubmatch(text, -1)
	for _, mark := range marks {
		if semver.Compare("v"+released, "v"+mark[1]) >= 0 {
			problems = append(problems, fmt.Sprintf("%s has come: remove what is there for an older release, or name a later one if the older one's "+
				"successor is younger than twelve months (docs/upgrade.md)", mark[1]))
		}
	}
	if mustEnd && len(marks) == 0 && olderRelease.MatchString(text) {
		problems = append(problems, "it names an older release, and not the one in which that ends (until 1.3.0)")
	}
	return problems
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, released string
		problems       int
	}{
		{"until 1.3.0: programs of 1.0.0 call it.", "1.0.0", 0},
		{"until 1.3.0: programs of 1.0.0 call it.", "1.2.17", 0},
		{"until 1.10.0: programs of 1.0.0 call it.", "1.9.0", 0},
		{"until 1.3.0: programs of 1.0.0 call it.", "1.3.0", 1},
		{"It is, until 1.3.0, one of two. until 1.4.0: one of three.", "2.0.0", 2},
		{"Programs of 1.0.0 call it.", "1.0.0", 1},
		{"Rows of before the migration have none.", "1.0.0", 1},
		{"It waits until the lease ends.", "1.0.0", 0},
	} {
		if problems := endings(test.text, test.released, true); len(problems) != test.problems {
			t.Errorf("after %s %q: %q", test.released, test.text, problems)
		}
	}
}
