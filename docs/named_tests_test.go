package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("`([a-z-]+\\.(?:Test|Fuzz)\\w+)`")

// TestDocumentsNameTests: each test that a document names exists, and the rows of these tables name one.
func TestDocumentsNameTests(t *testing.T) {
	t.Parallel()
	tests := tests(t)
	for document, least := range map[string]int{"docs/threat-model.md": 50, "docs/reliability.md": 30, "CONTRIBUTING.md": 50} {
		text := read(t, document)
		named := namedTest.FindAllStringSubmatch(text, -1)
		for _, test := range named {
			if !tests[test[1]] {
				t.Errorf("%s: there is no test %s", document, test[1])
			}
		}
		if len(named) < least {
			t.Errorf("%s names %d tests", document, len(named))
		}
	}
	rows := 0
	for _, table := range append(strings.Split(read(t, "docs/reliability.md"), "shown by |\n")[1:],
		strings.Split(read(t, "CONTRIBUTING.md"), "| tests |\n")[1:]...) {
		body, _, _ := strings.Cut(table, "\n\n")
		for _, row := range strings.Split(body, "\n")[1:] { // after the line below the heading
			if rows++; !namedTest.MatchString(row) {
				t.Errorf("no test shows %s", row)
			}
		}
	}
	if rows != 7+5+20+27 { // promises, lost commits, faults and protocols
		t.Errorf("the documents have %d rows with tests", rows)
	}
}

// tests are all tests of the repository, as package.Test.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, file := range tracked(t, "*_test.go") {
		source := read(t, file)
		name := strings.TrimSuffix(regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(source)[1], "_test")
		if name == "main" {
			name = path.Base(path.Dir(file))
		}
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(source, -1) {
			tests[name+"."+found[1]] = true
		}
	}
	return tests
}
