package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/proof.md has a row for each command that `make prove` runs.
func TestProof(t *testing.T) {
	t.Parallel()
	commands := func(document, row string) (list []string) {
		for _, found := range regexp.MustCompile(`(?m)`+row).FindAllStringSubmatch(read(t, document), -1) {
			list = append(list, strings.TrimSpace(found[1]))
		}
		return list
	}
	want := commands(".ci/prove", `^[a-z0-9-]+ \| ([^|]+) \| .`)
	if got := commands("docs/proof.md", `^\| ([^|]+) \|(?: [0-9a-f]{7,} of | \| not run )`); len(want) < 20 || cmp.Diff(want, got) != "" {
		t.Errorf("run `make prove PROVE=none` (-.ci/prove +docs/proof.md):\n%s", cmp.Diff(want, got))
	}
}

// Figures that a run has measured stand in docs/proof.md and in no other document, where they would grow old.
func TestMeasuredFigures(t *testing.T) {
	t.Parallel()
	measured := regexp.MustCompile(`(?i)\b(one|a|three|the same|last) runs? (of|on) (\d|two|three)|\b\d+ (January|February|March|April|May|June|July|August|September|October|November|December)\s+20\d\d|\b(two|four|eight) cores\b`)
	for _, document := range tracked(t, "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md") {
		if document == "docs/proof.md" {
			continue
		}
		for _, sentence := range measured.FindAllString(read(t, document), -1) {
			t.Errorf("%s tells of a run: %q", document, sentence)
		}
	}
}
