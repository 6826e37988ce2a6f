// Package intake reads rows from files, and reports the bad ones.
//
// A [Reader] feeds the rows of a file of comma-separated values (RFC 4180) to a COPY, one by one.
//
// # Invariants
//
//   - An error names a bad row by its line, its column and the reason, and never by its value, which may be personal (TestReader).
//   - One bad row does not hide the others: the reader continues to the end of the file and reports the first 100 (TestReader, refusal.TestRows).
//   - Memory does not grow with the file, even if a quote is never closed (TestReader).
package intake

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
)

// Progress is the progress of an import.
type Progress struct {
	Rows    int64 // read from the file
	Bytes   int64 // read from the file
	Storing bool  // all rows have been read and are now being stored
	Stored  int64 // about how many of them are stored
}

// Result counts what happened to rows. Each row counts in Rows and in one other field.
type Result struct {
	Rows      int64
	Inserted  int64
	Updated   int64
	Unchanged int64 // stored like that before, or replaced by a later row of the same write
	Skipped   int64 // of unknown users, if the import skips them
	Outdated  int64 // observed before what is stored
}

// Settle counts the rest of so many rows as unchanged.
func (r *Result) Settle(rows int64) {
	r.Rows = rows
	r.Unchanged = rows - r.Inserted - r.Updated - r.Skipped - r.Outdated
}

// progressEvery is the number of rows between two progress reports.
const progressEvery = 10_000

// Reader is a pgx.CopyFromSource of the good rows of a file of comma-separated values (RFC 4180), with or without a byte order mark. It
// collects the errors of the other rows.
type Reader struct {
	file     *limitedReader
	csv      *csv.Reader
	columns  []string // that the file has
	padded   bool     // the file leaves out the optional one
	line     int      // of the last row
	append   func(values []any, row []string, line int) ([]any, []refusal.Field)
	progress func(Progress)

	values []any
	rows   int64
	bad    refusal.Fields
	err    error
}

// byteOrderMark is what some programs begin a file in UTF-8 with.
const byteOrderMark = "\xef\xbb\xbf"

// Start returns the start of a file, of 1024 bytes at most, which are read again, and leaves out a byte order mark of UTF-8.
func Start(file *bufio.Reader) []byte {
	if mark, _ := file.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = file.Discard(len(byteOrderMark)) // cannot fail: it is in the buffer
	}
	start, _ := file.Peek(1024)
	return start
}

// NewReader returns the reader of a file whose first row must name the columns in order. A file may leave out the optional column, the last
// one, if it is not empty: its rows have the empty text there. appendValues appends the values of a row, or returns its errors. progress may
// be nil. The error is a [refusal.Field] or the cause of another failure.
func NewReader(
	file io.Reader, columns []string, optional string, progress func(Progress),
	appendValues func(values []any, row []string, line int) ([]any, []refusal.Field),
) (*Reader, error) {
	limited := &limitedReader{file: file, left: maxRowBytes}
	buffered := bufio.NewReaderSize(limited, 1<<16)
	start := Start(buffered)
	limited.raw.Next(int(limited.read) - buffered.Buffered()) // the mark
	if progress == nil {
		progress = func(Progress) {}
	}
	r := &Reader{file: limited, csv: csv.NewReader(buffered), columns: columns, padded: optional != "", append: appendValues, progress: progress}
	all := append(slices.Clip(columns), optional)
	if first, _ := csv.NewReader(bytes.NewReader(start)).Read(); r.padded && slices.Equal(first, all) {
		r.columns, r.padded = all, false
	}
	r.csv.ReuseRecord = true
	r.csv.FieldsPerRecord = -1 // next counts the fields, for an error of our own
	header, err := r.next()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, refusal.ErrFields) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if !slices.Equal(header, r.columns) {
		problem := cmp.Or(Foreign(start), fmt.Errorf("the header must be %s", strings.Join(columns, ",")))
		return nil, refusal.Field{Row: 1, Problem: problem.Error()}
	}
	return r, nil
}

// Header returns the columns that the file has.
func (r *Reader) Header() []string { return r.columns }

// next returns the next row, or [io.EOF], and records its line. The row is valid until the next call. The error is a [refusal.Field] if the
// line is not a row of this file.
func (r *Reader) next() (row []string, err error) {
	r.file.left = maxRowBytes
	before := r.csv.InputOffset()
	row, err = r.csv.Read()
	raw := r.file.raw.Next(int(r.csv.InputOffset() - before))
	refuse := func(column, problem string) ([]string, error) {
		return nil, refusal.Field{Row: r.line, Path: column, Problem: problem}
	}
	var malformed *csv.ParseError
	switch {
	case errors.Is(err, errLongRow):
		r.bad.Cut = true
		r.line++
		return refuse("", errLongRow.Error())
	case errors.As(err, &malformed):
		r.line = malformed.StartLine
		return refuse("", malformed.Err.Error())
	case err != nil:
		return nil, err
	}
	r.line, _ = r.csv.FieldPos(0)
	if len(row) != len(r.columns) {
		return refuse("", fmt.Sprintf("must have %d columns, has %d", len(r.columns), len(row)))
	}
	for i, field := range row {
		if !text.IsStorable(field) {
			return refuse(r.columns[i], "must be UTF-8 without NUL")
		}
		if strings.Contains(field, "\n") && bytes.Contains(bytes.Trim(raw, "\r\n"), []byte("\r\n")) {
			return refuse(r.columns[i], "must not have CR LF within: a reader of CSV makes it LF") // one text of two
		}
	}
	if bytes.HasSuffix(raw, []byte("\r")) {
		return refuse("", "must not end with CR alone")
	}
	return row, nil
}

// Next advances to the next good row.
func (r *Reader) Next() bool {
	for {
		row, err := r.next()
		if errors.Is(err, io.EOF) {
			return false
		}
		if r.rows++; r.rows%progressEvery == 0 {
			r.progress(Progress{Rows: r.rows, Bytes: r.file.read})
		}
		wrong := refusal.FieldsOf(err)
		switch {
		case wrong != nil:
		case err != nil:
			r.err = fmt.Errorf("read the file: %w", err)
			return false
		default:
			if r.padded {
				row = append(row, "")
			}
			r.values, wrong = r.append(r.values[:0], row, r.line)
		}
		if len(wrong) == 0 {
			return true
		}
		r.bad.AddRow(r.line, wrong...)
		if r.bad.Cut {
			return false
		}
	}
}

// Values returns the values of the row.
func (r *Reader) Values() ([]any, error) { return r.values, nil }

// Err returns why there is no next row, or nil at the end of the file.
func (r *Reader) Err() error { return r.err }

// Rows returns how many rows were read, including the bad ones.
func (r *Reader) Rows() int64 { return r.rows }

// Bad returns the errors of the rows that were read.
func (r *Reader) Bad() *refusal.Fields { return &r.bad }

// Storing reports the progress of storing: all rows have been read, and this share of them, from 0 to 1, is stored.
func (r *Reader) Storing(share float64) {
	r.progress(Progress{Rows: r.rows, Bytes: r.file.read, Storing: true, Stored: int64(share * float64(r.rows))})
}

// ShowProgress shows on a terminal how far an import of size bytes is, with its rate and the time that remains. finish removes the
// display. A display that fails does not stop the import.
func ShowProgress(screen io.Writer, size int64) (show func(Progress), finish func()) {
	newBar := func(size int64, options ...progressbar.Option) *progressbar.ProgressBar {
		return progressbar.NewOptions64(size, append(options,
			progressbar.OptionSetWriter(screen),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
		)...)
	}
	bar, storing := newBar(size, progressbar.OptionShowBytes(true)), false
	show = func(done Progress) {
		if !done.Storing {
			bar.Describe(fmt.Sprintf("reading row %d", done.Rows))
			_ = bar.Set64(done.Bytes)
			return
		}
		if !storing {
			storing = true
			_ = bar.Clear()
			bar = newBar(done.Rows, progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionShowCount())
			bar.Describe("storing rows")
		}
		_ = bar.Set64(done.Stored)
	}
	return show, func() { _ = bar.Clear() }
}
