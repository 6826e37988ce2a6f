package intake

import (
	"bytes"
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
	// The reader of CSV makes one text of two.
	errLineBreak = errors.New("must not have CR LF within: a reader of CSV makes it LF")
	errLastCR    = errors.New("must not end with CR alone")
)

// Foreign returns what the start of a file is, if it is in a form that is often taken for ours: another encoding, another separator. The error
// completes a sentence that begins with the file.
func Foreign(start []byte) error {
	text := string(start)
	line, _, _ := strings.Cut(text, "\n")
	is := func(separator string) bool { return strings.Contains(line, separator) && !strings.Contains(line, ",") }
	switch {
	case strings.HasPrefix(text, "\xff\xfe"), strings.HasPrefix(text, "\xfe\xff"), strings.HasPrefix(text, "\x00"), strings.HasPrefix(text[min(1, len(text)):], "\x00"):
		return errors.New("must be UTF-8, not UTF-16")
	case strings.HasPrefix(text, "PK\x03\x04"):
		return errors.New("must be CSV, not a spreadsheet or a ZIP file")
	case strings.HasPrefix(text, "\x1f\x8b"):
		return errors.New("must be CSV, not compressed")
	case strings.HasPrefix(strings.ToLower(strings.TrimPrefix(line, `"`)), "sep="):
		return errors.New("must begin with the header, not with sep=")
	case strings.Contains(strings.TrimSuffix(line, "\r"), "\r"):
		return errors.New("must have lines that end with LF or CR LF, not with CR")
	case is(";"):
		return errors.New("must have commas between columns, not semicolons")
	case is("\t"):
		return errors.New("must have commas between columns, not tabs")
	case is("|"):
		return errors.New("must have commas between columns, not bars")
	}
	return nil
}

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

// limitedReader counts the bytes read, and fails if one row takes more than left. It keeps the bytes of rows that are not done.
type limitedReader struct {
	file io.Reader
	left int
	read int64
	raw  bytes.Buffer
}

func (r *limitedReader) Read(into []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.file.Read(into)
	r.left -= n
	r.read += int64(n)
	r.raw.Write(into[:n])
	return n, err
}
