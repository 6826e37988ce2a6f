package operator

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"connect-svc/gen/operatorapi"
)

var errCursor = errors.New("the cursor is not one of this list")

// defaultLimit is the limit of a page where nothing else is asked for. The document has it, too.
const defaultLimit = 100

// listing is a list with its filters, as it was asked for: a cursor continues this one and no other. A cursor holds the position
// of the last row and no right to anything, so that it is not sealed.
type listing struct {
	name    string
	filters any // of the request, without limit and cursor
	limit   *operatorapi.Limit
	cursor  *operatorapi.Cursor
}

// cursorContent is what a cursor is made of.
type cursorContent[P any] struct {
	Of    []byte `json:"o"` // the list and its filters, hashed
	After P      `json:"a"`
}

var cursorEncoding = base64.RawURLEncoding.Strict()

func (l listing) hash() ([]byte, error) {
	text, err := json.Marshal(l.filters)
	if err != nil {
		return nil, fmt.Errorf("operator: cursor: %w", err)
	}
	sum := sha256.Sum256([]byte(l.name + "\x00" + string(text)))
	return sum[:8], nil
}

// page asks a domain for the rows of a listing's page. next is the cursor of the page behind it, nil where there is none. list
// returns at most limit rows, those after a position, whose zero value is before all rows.
func page[T, P any](
	l listing, list func(after P, limit int) ([]T, error), position func(T) P,
) (rows []T, next *string, err error) {
	hash, err := l.hash()
	if err != nil {
		return nil, nil, err
	}
	var from cursorContent[P]
	if l.cursor != nil {
		if err := decodeCursor(*l.cursor, &from); err != nil || !bytes.Equal(from.Of, hash) {
			return nil, nil, errCursor
		}
	}
	limit := defaultLimit
	if l.limit != nil {
		limit = *l.limit
	}
	rows, err = list(from.After, limit+1) // one more shows that there is another page
	if err != nil || len(rows) <= limit {
		return rows, nil, err
	}
	rows = rows[:limit]
	text, err := json.Marshal(cursorContent[P]{hash, position(rows[limit-1])})
	if err != nil {
		return nil, nil, fmt.Errorf("operator: cursor: %w", err)
	}
	cursor := cursorEncoding.EncodeToString(text)
	return rows, &cursor, nil
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
		return errCursor
	}
	return nil
}

// each is a list of bodies, never null in JSON.
func each[T, B any](rows []T, body func(T) B) []B {
	bodies := make([]B, len(rows))
	for i, row := range rows {
		bodies[i] = body(row)
	}
	return bodies
}
