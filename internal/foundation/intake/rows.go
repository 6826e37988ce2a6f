package intake

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// maxRowBytes bounds the memory for a row: a quote that is never closed turns the rest of the file into one row.
const maxRowBytes = 1 << 20

var (
	// ErrUUID is the error of a column of ids.
	ErrUUID = errors.New("must be a UUID")

	errLongRow = errors.New("must be shorter than 1 MiB: is a closing quote missing?")
)

// Foreign returns what the start of a file is, if it is in a form that is often taken for ours: another encoding, another separator. The error
// completes a sentence that begins with the file.
func Foreign(start []byte) error {
	text := string(start)
	line, _, _ := strings.Cut(text, "\n")
	separates := func(separator string) bool { return strings.Contains(line, separator) && !strings.Contains(line, ",") }
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
	case separates(";"):
		return errors.New("must have commas between columns, not semicolons")
	case separates("\t"):
		return errors.New("must have commas between columns, not tabs")
	case separates("|"):
		return errors.New("must have commas between columns, not bars")
	}
	return nil
}

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

// ErrSameFile is the error for skipped rows that would replace the file that they come from.
var ErrSameFile = errors.New("must not be the file that is imported")

// SkippedRows writes rows that are not imported to a file, which is there, with its header, when the import is done, and before as
// it was. A pipe or a device gets the rows at once.
type SkippedRows struct {
	*csv.Writer
	file *os.File
	name string // empty: the file has its name
}

// NewSkippedRows creates the file beside its place. Its first row is to be the header. Error: [ErrSameFile], if it is the file that is read.
func NewSkippedRows(name, source string) (*SkippedRows, error) {
	if there, err := os.Stat(name); err == nil {
		if input, err := os.Stat(source); err == nil && os.SameFile(there, input) {
			return nil, ErrSameFile
		}
		if !there.Mode().IsRegular() { // such as /dev/null, which no file may replace; a folder is an error
			file, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY, 0)
			return &SkippedRows{csv.NewWriter(file), file, ""}, err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".skipped-*.csv")
	if err != nil {
		return nil, err
	}
	return &SkippedRows{csv.NewWriter(file), file, name}, nil
}

// Keep gives the file its name.
func (r *SkippedRows) Keep() error {
	r.Flush()
	err := errors.Join(r.Error(), r.file.Close())
	if err == nil && r.name != "" {
		err = os.Rename(r.file.Name(), r.name)
	}
	if err != nil {
		return fmt.Errorf("the other rows are imported, but those of unknown users cannot be written: %w", err)
	}
	return nil
}

// Discard removes what [SkippedRows.Keep] did not keep.
func (r *SkippedRows) Discard() {
	_ = r.file.Close()
	if r.name != "" {
		_ = os.Remove(r.file.Name())
	}
}
