package intake

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
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

// File reads a file of comma-separated values (RFC 4180) row by row, with or without a byte order mark.
type File struct {
	file    *limitedReader
	reader  *csv.Reader
	columns []string
	line    int // of the last row
}

// Open reads the header, which must name the columns in their order. The error is a [RowError] or says what else failed.
func Open(file io.Reader, columns []string) (*File, error) {
	limited := &limitedReader{file: file, left: maxRowBytes}
	buffered := bufio.NewReaderSize(limited, 1<<16)
	const byteOrderMark = "\xef\xbb\xbf"
	if start, _ := buffered.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // it is in the buffer
	}
	f := &File{file: limited, reader: csv.NewReader(buffered), columns: columns}
	f.reader.ReuseRecord = true
	f.reader.FieldsPerRecord = -1 // Next counts the fields, for an error in our words
	header, _, err := f.Next()
	if bad := (*RowError)(nil); err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if !slices.Equal(header, columns) {
		return nil, &RowError{Line: 1, Err: fmt.Errorf("the header must be %s", strings.Join(columns, ","))}
	}
	return f, nil
}

// Next is the next row and its line, until [io.EOF]. The row is valid until the next call. A [RowError] says that the
// line is no row of this file.
func (f *File) Next() (row []string, line int, err error) {
	f.file.left = maxRowBytes
	row, err = f.reader.Read()
	var malformed *csv.ParseError
	switch {
	case errors.Is(err, errLongRow):
		return nil, 0, &RowError{Line: f.line + 1, Err: errLongRow}
	case errors.As(err, &malformed):
		f.line = malformed.StartLine
		return nil, 0, &RowError{Line: f.line, Err: malformed.Err}
	case err != nil:
		return nil, 0, err
	}
	f.line, _ = f.reader.FieldPos(0)
	if len(row) != len(f.columns) {
		return nil, 0, &RowError{Line: f.line, Err: fmt.Errorf("must have %d columns, has %d", len(f.columns), len(row))}
	}
	for i, field := range row {
		if !IsText(field) {
			return nil, 0, &RowError{Line: f.line, Column: f.columns[i], Err: errText}
		}
	}
	return row, f.line, nil
}

// Bytes is how much of the file was read.
func (f *File) Bytes() int64 { return f.file.read }

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
