// Package page splits lists into pages, for the operator API and the console alike.
//
// A list is ordered by the [Key] of its rows. [Read] asks a domain for the rows after a key and returns them with a cursor,
// which names the list, its filters and the key of the last row.
//
// # Invariants
//
//   - A cursor continues the list that it was made for, with the same filters, and no other (TestCursors).
//   - A cursor grants nothing. It is neither sealed nor stored, and it does not expire (TestCursors).
package page

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
)

// ErrCursor means that a cursor is malformed, or belongs to another list or to other filters.
var ErrCursor = errors.New("the cursor does not continue this list")

// defaultLimit is the number of rows of a page if the request names none. api/operator.yaml states it too.
const defaultLimit = 100

// Key is the place of a row in its list. A list uses the fields that it is ordered by. The zero value comes before all rows.
type Key struct {
	At time.Time `json:"t,omitzero"`
	N  int64     `json:"n,omitzero"`
	ID uuid.UUID `json:"i,omitzero"`
	Of uuid.UUID `json:"o,omitzero"` // what ID belongs to: its user, for instance
}

// OrNewest is the key itself, or for the zero value a key after all rows: a list with the newest first begins there.
func (k Key) OrNewest() Key {
	if k == (Key{}) {
		return Key{At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), N: math.MaxInt64, ID: uuid.Max, Of: uuid.Max}
	}
	return k
}

// List is a list as a request asks for it.
type List struct {
	Name    string
	Filters any     // without limit and cursor
	Limit   *int    // 1 and up; nil: 100
	Cursor  *string // nil: the first page
}

// Read returns a page of a list, and the cursor of the next page, or nil on the last one. fetch returns at most limit rows after
// a key. Error: ErrCursor.
func Read[T any, K comparable](l List, fetch func(after K, limit int) ([]T, error), key func(T) K) (rows []T, next *string, err error) {
	return Search(l, func(after K, limit int) (rows []T, last K, err error) {
		rows, err = fetch(after, limit+1) // one more row shows that there is another page
		if err != nil || len(rows) <= limit {
			return rows, last, err
		}
		return rows[:limit], key(rows[limit-1]), nil
	})
}

// Search is [Read] for a list whose pages may have fewer rows than their limit: fetch itself returns the key to continue after,
// or the zero key at the end.
func Search[T any, K comparable](l List, fetch func(after K, limit int) (rows []T, next K, err error)) (rows []T, next *string, err error) {
	filters, err := json.Marshal(l.Filters)
	if err != nil {
		return nil, nil, fmt.Errorf("cursor: %w", err)
	}
	hash := sha256.Sum256([]byte(l.Name + "\x00" + string(filters)))
	cursor := func(after K) string { // K is [Key], or an array of keys for a list that is merged from several
		text, _ := json.Marshal(after) // cannot fail
		return base64.RawURLEncoding.EncodeToString(append(hash[:8:8], text...))
	}
	var after, none K
	if l.Cursor != nil {
		content, _ := base64.RawURLEncoding.DecodeString(*l.Cursor)
		if len(content) < 8 || json.Unmarshal(content[8:], &after) != nil || cursor(after) != *l.Cursor {
			return nil, nil, ErrCursor
		}
	}
	rows, last, err := fetch(after, *cmp.Or(l.Limit, new(defaultLimit)))
	if err != nil || last == none {
		return rows, nil, err
	}
	return rows, new(cursor(last)), nil
}
