package intake

import (
	"errors"
	"fmt"
	"io"
)

// Progress of an import.
type Progress struct {
	Rows    int64 // read from the file
	Bytes   int64 // read from the file
	Storing bool  // all rows are read and are now being written
	Stored  int64 // of them, about how many are written
}

// progressEvery is the number of rows between two reports of progress.
const progressEvery = 10_000

// Reader feeds the good rows of a file to a COPY, as a pgx.CopyFromSource does, and keeps what is wrong with the others.
type Reader struct {
	file     *File
	append   func(values []any, row []string, line int) ([]any, []*RowError)
	progress func(Progress)

	values []any
	rows   int64
	bad    BadRows
	err    error
}

// NewReader reads a file whose first row must name the columns in their order. appendValues appends what is copied of a row, or says
// what is wrong with it. progress may be nil. The error is a [RowError] or says what else failed.
func NewReader(
	file io.Reader, columns []string, progress func(Progress),
	appendValues func(values []any, row []string, line int) ([]any, []*RowError),
) (*Reader, error) {
	opened, err := Open(file, columns)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	return &Reader{file: opened, append: appendValues, progress: progress}, nil
}

// Next goes on to the next good row.
func (r *Reader) Next() bool {
	for {
		row, line, err := r.file.Next()
		if errors.Is(err, io.EOF) {
			return false
		}
		if r.rows++; r.rows%progressEvery == 0 {
			r.progress(Progress{Rows: r.rows, Bytes: r.file.Bytes()})
		}
		var faults []*RowError
		switch malformed := (*RowError)(nil); {
		case errors.As(err, &malformed):
			faults = []*RowError{malformed}
			r.bad.Cut = errors.Is(err, errLongRow)
		case err != nil:
			r.err = fmt.Errorf("read the file: %w", err)
			return false
		default:
			r.values, faults = r.append(r.values[:0], row, line)
		}
		if len(faults) == 0 {
			return true
		}
		r.bad.Add(faults...)
		if r.bad.Cut {
			return false
		}
	}
}

// Values of the row.
func (r *Reader) Values() ([]any, error) { return r.values, nil }

// Err is why there is no next row, nil at the end of the file.
func (r *Reader) Err() error { return r.err }

// Rows is how many rows were read, the bad ones too.
func (r *Reader) Rows() int64 { return r.rows }

// Bad is what is wrong with rows that were read.
func (r *Reader) Bad() *BadRows { return &r.bad }

// Storing reports that all rows are read, and that this share of them is written: 0 to 1.
func (r *Reader) Storing(share float64) {
	r.progress(Progress{Rows: r.rows, Bytes: r.file.Bytes(), Storing: true, Stored: int64(share * float64(r.rows))})
}
