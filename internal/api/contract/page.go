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
func Page[T, P any](
	l Listing, list func(after P, limit int) ([]T, error), position func(T) P,
) (rows []T, next *string, err error) {
	from, err := After[P](l)
	if err != nil {
		return nil, nil, err
	}
	limit := defaultLimit
	if l.Limit != nil {
		limit = *l.Limit
	}
	rows, err = list(from, limit+1) // one more shows that there is another page
	if err != nil || len(rows) <= limit {
		return rows, nil, err
	}
	rows = rows[:limit]
	cursor, err := Next(l, position(rows[limit-1]))
	return rows, &cursor, err
}

// After is the position that a listing goes on from, the zero value for its first page. Error: [ErrCursor].
func After[P any](l Listing) (after P, err error) {
	if l.Cursor == nil {
		return after, nil
	}
	hash, err := l.hash()
	if err != nil {
		return after, err
	}
	var from cursorContent[P]
	if err := decodeCursor(*l.Cursor, &from); err != nil || !bytes.Equal(from.Of, hash) {
		return after, ErrCursor
	}
	return from.After, nil
}

// Next is the cursor by which a listing goes on from a position.
func Next[P any](l Listing, from P) (string, error) {
	hash, err := l.hash()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(cursorContent[P]{hash, from})
	if err != nil {
		return "", fmt.Errorf("cursor: %w", err)
	}
	return cursorEncoding.EncodeToString(text), nil
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
