package intake

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// maxRowBytes bounds the memory that a file takes: a quote that is never closed makes one row of all that follows.
const maxRowBytes = 1 << 20

var (
	// ErrUUID says what a column of ids wants.
	ErrUUID = errors.New("must be a UUID")

	errText    = errors.New("must be UTF-8 without NUL")
	errLongRow = errors.New("must be shorter than 1 MiB: is a closing quote missing?")
)

// IsText tells whether PostgreSQL takes the text.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// ParseUUID reads a UUID in its usual form alone; [uuid.Parse] knows more of them.
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

// limitedReader counts what is read, and fails where one row takes more of the file than left.
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
