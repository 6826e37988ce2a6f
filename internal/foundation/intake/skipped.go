package intake

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrSameFile is the error for skipped rows that would replace the file that they come from.
var ErrSameFile = errors.New("must not be the file that is imported")

// SkippedRows writes rows that are not imported to a file, which is there, with its header, when the import is done, and before as
// it was.
type SkippedRows struct {
	*csv.Writer
	file *os.File
	name string
}

// NewSkippedRows creates the file beside its place, with a header. Error: [ErrSameFile], if it is the file that is read.
func NewSkippedRows(name, source string, header []string) (*SkippedRows, error) {
	if there, err := os.Stat(name); err == nil {
		if input, err := os.Stat(source); err == nil && os.SameFile(there, input) {
			return nil, ErrSameFile
		}
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".skipped-*.csv")
	if err != nil {
		return nil, err
	}
	rows := &SkippedRows{csv.NewWriter(file), file, name}
	return rows, rows.Write(header)
}

// Keep gives the file its name.
func (r *SkippedRows) Keep() error {
	r.Flush()
	err := errors.Join(r.Error(), r.file.Close())
	if err == nil {
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
	_ = os.Remove(r.file.Name())
}
