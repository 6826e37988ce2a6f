package intake

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxNamed is how many faults are named at a time.
const MaxNamed = 100

// RowError says what is wrong with a row.
type RowError struct {
	Line   int    // of the file, or number of the row in a batch; from 1
	Column string // empty when the whole line is wrong
	Err    error  // the reason, without the value: that may be personal
}

func (e *RowError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d, column %s: %v", e.Line, e.Column, e.Err)
}

func (e *RowError) Unwrap() error { return e.Err }

// BadRows is the error of rows that cannot be taken. None of the rows was taken then, the good ones neither.
type BadRows struct {
	Named []*RowError // the first 100 faults, by line
	Count int64       // of bad rows
	Rows  int64       // read, the bad ones too
	Cut   bool        // what follows the last named row could not be read
}

// Error sums up in one line.
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

// Unwrap is the named faults.
func (e *BadRows) Unwrap() []error {
	all := make([]error, len(e.Named))
	for i, row := range e.Named {
		all[i] = row
	}
	return all
}

// Add notes the faults of one more row.
func (e *BadRows) Add(faults ...*RowError) { e.Found(1, faults...) }

// Found notes that count more rows are bad, and the first faults of them.
func (e *BadRows) Found(count int64, faults ...*RowError) {
	e.Count += count
	e.Named = append(e.Named, faults...)
	if len(e.Named) > MaxNamed {
		slices.SortStableFunc(e.Named, func(a, b *RowError) int { return cmp.Compare(a.Line, b.Line) })
		e.Named = slices.Delete(e.Named, MaxNamed, len(e.Named))
	}
}

// Err is e as an error about so many rows, or nil if no row is bad.
func (e *BadRows) Err(rows int64) error {
	if e.Count == 0 {
		return nil
	}
	e.Rows = rows
	slices.SortStableFunc(e.Named, func(a, b *RowError) int { return cmp.Compare(a.Line, b.Line) })
	return e
}
