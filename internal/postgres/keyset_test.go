package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/postgres"
	"connect-svc/internal/testing/pgtest"
)

// keyset is one whose marks are the names of its keys.
type keyset struct {
	identifiers string
	sealing     []string // the last one is the primary key
}

func (k keyset) Fingerprint() string                 { return k.identifiers }
func (k keyset) Knows(mark string) bool              { return slices.Contains(k.sealing, mark) }
func (k keyset) primary() (mark string)              { return k.sealing[len(k.sealing)-1] }
func (k keyset) Mark() (key, mark string, err error) { return k.primary(), k.primary(), nil }

// A keyset is refused that lacks a key which was used on the database, and a refused one leaves no mark.
func TestKeyset(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, step := range []struct {
		when    string
		keyset  keyset
		refusal string // none: it starts
	}{
		{"the first one", keyset{"mine", []string{"1", "2"}}, ""},
		{"another identifier key", keyset{"another", []string{"1", "2"}}, "is not the one that this database's credentials are made with"},
		{"other sealing keys", keyset{"mine", []string{"9"}}, "lacks key 2"},
		{"the first one, after the refusals", keyset{"mine", []string{"1", "2"}}, ""},
		{"rotated", keyset{"mine", []string{"1", "2", "3"}}, ""},
		{"behind the rotation", keyset{"mine", []string{"1", "2"}}, "lacks key 3"},
	} {
		err := postgres.CheckKeyset(t.Context(), db.Pool, step.keyset)
		if (err == nil) != (step.refusal == "") || err != nil && !strings.Contains(err.Error(), step.refusal) {
			t.Errorf("%s: %v, want %q", step.when, err, step.refusal)
		}
	}
}
