package pgtest

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"connect-svc/migrations"
)

// Migrations returns a copy of the service's migrations, and made-up ones beside them.
func Migrations(t testing.TB, more map[string]string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}
