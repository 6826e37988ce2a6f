package page_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/page"
)

// TestCursors reads a list page by page, and refuses cursors of other lists and malformed ones.
func TestCursors(t *testing.T) {
	t.Parallel()
	var all []page.Key
	for i := range 7 {
		all = append(all, page.Key{At: time.Date(2026, 1, 1, 0, 0, i/2, 123_456_000, time.UTC), N: int64(i), ID: uuid.New(), Of: uuid.New()})
	}
	fetch := func(after page.Key, limit int) ([]page.Key, error) {
		rest := all[slices.Index(all, after)+1:]
		return rest[:min(limit, len(rest))], nil
	}
	itself := func(k page.Key) page.Key { return k }

	var got []page.Key
	var cursors []string
	list := page.List{Name: "rows", Filters: "red", Limit: new(3)}
	for {
		rows, next, err := page.Read(list, fetch, itself)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rows...)
		if next == nil {
			break
		}
		cursors = append(cursors, *next)
		list.Cursor = next
	}
	if diff := cmp.Diff(all, got); diff != "" || len(cursors) != 2 {
		t.Errorf("%d cursors (want 2), rows differ: %s", len(cursors), diff)
	}

	first, err := base64.RawURLEncoding.DecodeString(cursors[0])
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	for name, bad := range map[string]page.List{
		"another list":   {Name: "columns", Filters: "red", Cursor: &cursors[0]},
		"another filter": {Name: "rows", Filters: "blue", Cursor: &cursors[0]},
		"empty":          {Name: "rows", Filters: "red", Cursor: new("")},
		"padded":         {Name: "rows", Filters: "red", Cursor: new(cursors[0] + "=")},
		"not JSON":       {Name: "rows", Filters: "red", Cursor: new(encode(first[:len(first)-1]))},
		"two values":     {Name: "rows", Filters: "red", Cursor: new(encode(append(first[:len(first):len(first)], '{', '}')))},
		"unknown field":  {Name: "rows", Filters: "red", Cursor: new(encode(append(first[:8:8], `{"n":1,"x":1}`...)))},
	} {
		if _, _, err := page.Read(bad, fetch, itself); !errors.Is(err, page.ErrCursor) {
			t.Errorf("%s: %v, want ErrCursor", name, err)
		}
	}
}
