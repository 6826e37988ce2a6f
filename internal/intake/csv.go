package intake

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// maxRowBytes bounds the memory for a row: a quote that is never closed turns the rest of the file into one row.
const maxRowBytes = 1 << 20

var (
	// ErrUUID is the error of a column of ids.
	ErrUUID = errors.New("must be a UUID")

	errText    = errors.New("must be UTF-8 without NUL")
	errLongRow = errors.New("must be shorter than 1 MiB: is a closing quote missing?")
)

// IsText reports whether PostgreSQL accepts the text.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// ParseUUID parses a UUID in its usual form. [uuid.Parse] accepts other forms as well.
func ParseUUID(text string) (uuid.UUID, error) {
	if len(text) != 36 {
		return uuid.UUID{}, ErrUUID
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.UUID{}, ErrUUID
	}
	return id, nil
}

// limitedReader counts the bytes read, and fails if one row takes more than left.
type limitedReader struct {
	file io.Reader
	left int
	read int64
}

func (r *limitedReader) Read(into []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.file.Read(into)
	r.left -= n
	r.read += int64(n)
	return n, err
}
