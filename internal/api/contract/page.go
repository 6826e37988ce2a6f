package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrCursor is the error for a cursor of another list, or none at all.
var ErrCursor = errors.New("the cursor is not one of this list")

// defaultLimit is the limit of a page where nothing else is asked for. The document has it, too.
const defaultLimit = 100

// Listing is a list with its filters, as it was asked for: a cursor continues this one and no other. A cursor holds the position
// of the last row and no right to anything, so that it is not sealed.
type Listing struct {
	Name    string
	Filters any     // of the request, without limit and cursor
	Limit   *int    // 1 and up; nil: 100
	Cursor  *string // nil: the first page
}

// cursorContent is what a cursor is made of.
type cursorContent[P any] struct {
	Of    []byte `json:"o"` // the list and its filters, hashed
	After P      `json:"a"`
}

var cursorEncoding = base64.RawURLEncoding.Strict()

func (l Listing) hash() ([]byte, error) {
	text, err := json.Marshal(l.Filters)
	if err != nil {
		return nil, fmt.Errorf("cursor: %w", err)
	}
	sum := sha256.Sum256([]byte(l.Name + "\x00" + string(text)))
	return sum[:8], nil
}

// Page asks a domain for the rows of a listing's page. next is the cursor of the page behind it, nil where there is none. list
// returns at most limit rows, those after a position, whose zero value is before all rows.
func Page[T any, P comparable](
	l Listing, list func(after P, limit int) ([]T, error), position func(T) P,
) (rows []T, next *string, err error) {
	return Search(l, func(after P, limit int) (rows []T, last P, err error) {
		rows, err = list(after, limit+1) // one more shows that there is another page
		if err != nil || len(rows) <= limit {
			return rows, last, err
		}
		return rows[:limit], position(rows[limit-1]), nil
	})
}

// Search is [Page] for a list that says itself where it goes on, and where it does not: by the zero position. Its pages may have
// fewer rows than their limit.
func Search[T any, P comparable](
	l Listing, list func(after P, limit int) (rows []T, next P, err error),
) (rows []T, next *string, err error) {
	hash, err := l.hash()
	if err != nil {
		return nil, nil, err
	}
	var after, none P
	if l.Cursor != nil {
		var from cursorContent[P]
		if err := decodeCursor(*l.Cursor, &from); err != nil || !bytes.Equal(from.Of, hash) {
			return nil, nil, ErrCursor
		}
		after = from.After
	}
	limit := defaultLimit
	if l.Limit != nil {
		limit = *l.Limit
	}
	rows, last, err := list(after, limit)
	if err != nil || last == none {
		return rows, nil, err
	}
	text, err := json.Marshal(cursorContent[P]{hash, last})
	if err != nil {
		return nil, nil, fmt.Errorf("cursor: %w", err)
	}
	return rows, new(cursorEncoding.EncodeToString(text)), nil
}

func decodeCursor(text string, into any) error {
	content, err := cursorEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return ErrCursor
	}
	return nil
}
