package intake

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxNamed is how many errors of rows BadRows lists.
const MaxNamed = 100

// RowError is what is wrong with a row.
type RowError struct {
	Line   int    // of the file, or number of the row in a batch; from 1
	Column string // empty if the whole line is wrong
	Err    error  // the reason, without the value, which may be personal
}

func (e *RowError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d, column %s: %v", e.Line, e.Column, e.Err)
}

func (e *RowError) Unwrap() error { return e.Err }

// BadRows is the error of an import or a batch with bad rows. None of its rows was stored.
type BadRows struct {
	Named []*RowError // the first 100 errors, by line
	Count int64       // of bad rows
	Rows  int64       // read, including the bad ones
	Cut   bool        // the file could not be read beyond the last named row
}

// Error summarizes the errors in one line.
func (e *BadRows) Error() string {
	text := fmt.Sprintf("%d of %d rows cannot be taken", e.Count, e.Rows)
	if e.Cut {
		text = fmt.Sprintf("%d rows cannot be taken, and the file cannot be read to its end", e.Count)
	}
	if e.Count > int64(len(e.Named)) {
		text += fmt.Sprintf("; the first %d faults are named", len(e.Named))
	}
	return text
}

// Unwrap returns the named errors.
func (e *BadRows) Unwrap() []error {
	all := make([]error, len(e.Named))
	for i, row := range e.Named {
		all[i] = row
	}
	return all
}

// Add records the errors of one more row.
func (e *BadRows) Add(errs ...*RowError) { e.Found(1, errs...) }

// Found records that count more rows are bad, with their first errors.
func (e *BadRows) Found(count int64, errs ...*RowError) {
	e.Count += count
	e.Named = append(e.Named, errs...)
	if len(e.Named) > MaxNamed {
		slices.SortStableFunc(e.Named, func(a, b *RowError) int { return cmp.Compare(a.Line, b.Line) })
		e.Named = slices.Delete(e.Named, MaxNamed, len(e.Named))
	}
}

// Err returns e as the error of so many rows, or nil if no row is bad.
func (e *BadRows) Err(rows int64) error {
	if e.Count == 0 {
		return nil
	}
	e.Rows = rows
	slices.SortStableFunc(e.Named, func(a, b *RowError) int { return cmp.Compare(a.Line, b.Line) })
	return e
}
