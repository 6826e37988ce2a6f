package credential_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// keyset makes a keyset file, or a copy of one whose part is that of another.
func keyset(t *testing.T, from, part, other string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyset.json")
	if from == "" {
		if err := credential.CreateKeyset(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(file string) (parts map[string]json.RawMessage) {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &parts)
		}
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	parts := read(from)
	parts[part] = read(other)[part]
	text, err := json.Marshal(parts)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A keyset that lacks a key which was used on the database is refused, and leaves no mark.
func TestMarks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	mine, another := keyset(t, "", "", ""), keyset(t, "", "", "")
	unrotated := keyset(t, mine, "sealing", mine)
	marks := func() int { return pgtest.Value[int](t, db, "select count(*) from keyset_marks") }
	for _, step := range []struct {
		when, file string
		rotate     bool
		refusal    string // empty: it starts
		marks      int
	}{
		{"the first one", mine, false, "", 2},
		{"another identifier key", keyset(t, mine, "identifiers", another), false, "is not the one that this database's credentials are made with", 2},
		{"other sealing keys", keyset(t, mine, "sealing", another), false, "lacks key ", 2},
		{"the first one, after the refusals", mine, false, "", 2},
		{"rotated", mine, true, "", 3},
		{"not rotated yet, with the next key", unrotated, false, "", 3},
		{"rotated twice", mine, true, "", 4},
		{"behind two rotations", unrotated, false, "lacks key ", 4},
	} {
		if step.rotate {
			if err := credential.RotateKeyset(step.file); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := credential.LoadKeyring(step.file)
		if err != nil {
			t.Fatal(err)
		}
		before := marks()
		tried := keys.TryMarks(t.Context(), db.Pool)
		if after := marks(); after != before {
			t.Errorf("%s: trying left %d marks of %d", step.when, after, before)
		}
		err = keys.CheckMarks(t.Context(), db.Pool)
		if (err == nil) != (step.refusal == "") || err != nil && !strings.Contains(err.Error(), step.refusal) || (tried == nil) != (err == nil) {
			t.Errorf("%s: %v, want %q; tried: %v", step.when, err, step.refusal, tried)
		}
		if n := marks(); n != step.marks {
			t.Errorf("%s: %d marks, want %d", step.when, n, step.marks)
		}
	}
}
