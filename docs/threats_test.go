package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestThreatsHaveTests: each test that the threat model names exists.
func TestThreatsHaveTests(t *testing.T) {
	t.Parallel()
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
	named := 0
	for line := range strings.Lines(read(t, "docs/threat-model.md")) {
		found := regexp.MustCompile("`([a-z-]+\\.(?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(line, -1)
		for _, test := range found {
			if named++; !tests[test[1]] {
				t.Errorf("there is no test %s", test[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("%d tests are named", named)
	}
}
