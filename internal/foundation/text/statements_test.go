package text_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// folds matches what depends on a database's locale: functions and operators of the case of letters. starts_with, position and like compare
// characters.
var folds = regexp.MustCompile(`\b(lower|upper|initcap)\s*\(|\bilike\b|~~?\*|\bcitext\b|\bsimilar to\b`)

// No statement folds a text. The exceptions tell what a program of 1.0.0 has written, are about names of PostgreSQL's own, or order a list,
// which is for eyes alone.
func TestProgramFolds(t *testing.T) {
	t.Parallel()
	exceptions := map[string]int{
		"sql/account/account.sql":                     1, // DeleteAddress
		"internal/domain/account/put_users.go":        1, // the same for many
		"internal/foundation/postgres/citus/place.go": 1,
		"sql/usage/days.sql":                          3, // the list of partners by name
	}
	comment := regexp.MustCompile(`(?m)^\s*(--|//).*$`)
	found := map[string]int{}
	read := func(root string, matches func(path string) bool) {
		err := filepath.WalkDir(filepath.Join("../../..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !matches(path) {
				return err
			}
			text, err := os.ReadFile(path)
			if n := len(folds.FindAll(comment.ReplaceAll(text, nil), -1)); n > 0 {
				found[strings.TrimPrefix(filepath.ToSlash(path), "../../../")] += n
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read("sql", func(path string) bool { return strings.HasSuffix(path, ".sql") })
	read("internal", func(path string) bool { return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") })
	read("cmd", func(path string) bool { return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") })
	for path, n := range found {
		if n != exceptions[path] {
			t.Errorf("%s folds %d texts in statements, want %d: compare keys that the program makes (internal/foundation/text)", path, n, exceptions[path])
		}
	}
	for path := range exceptions {
		if found[path] == 0 {
			t.Errorf("%s folds no text any more", path)
		}
	}
}
