package docs_test

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proof is the end of an invariant: the tests that show it, of its own package or of another one.
var proof = regexp.MustCompile(`\(((?:[\w-]+\.)?(?:Test|Fuzz)\w+(?:, (?:[\w-]+\.)?(?:Test|Fuzz)\w+)*)\)\.?$`)

// TestInvariantsNameTheirProof: each bullet under "# Invariants" of a package's documentation ends with the name of its test, which exists.
func TestInvariantsNameTheirProof(t *testing.T) {
	t.Parallel()
	exists := tests(t)
	checked := 0
	for _, name := range tracked(t, "*.go") {
		for _, invariant := range invariants(t, name) {
			checked++
			named := proof.FindStringSubmatch(invariant)
			if named == nil {
				t.Errorf("%s: no test is named at the end of: %s", name, invariant)
				continue
			}
			for one := range strings.SplitSeq(named[1], ", ") {
				if !strings.Contains(one, ".") {
					one = path.Base(path.Dir(name)) + "." + one
				}
				if !exists[one] {
					t.Errorf("%s: there is no test %s", name, one)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d invariants were found", checked)
	}
}

// invariants are the bullets of a package's documentation under that heading, each in one line.
func invariants(t *testing.T, name string) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(file.Doc.Text()) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# "):
			inside = line == "# Invariants"
		case !inside || line == "":
		case strings.HasPrefix(line, "  - "):
			list = append(list, line[4:])
		case strings.HasPrefix(line, "    ") && len(list) > 0:
			list[len(list)-1] += " " + strings.TrimSpace(line)
		default:
			inside = false
		}
	}
	return list
}
