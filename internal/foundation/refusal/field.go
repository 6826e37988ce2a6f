package refusal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrFields is what each [Field] and each [Fields] is, to [errors.Is].
var ErrFields = errors.New("invalid fields")

// MaxNamed is how many fields a [Fields] names.
const MaxNamed = 100

// Field is the error of a field: where it stands, and what it must be. It never has the value, which may be personal or secret.
type Field struct {
	Row     int    // the line of a file, or the number in a list, from 1; 0: Path says it all
	Path    string // the name, as its sender knows it (contact-email), a column, or a JSON pointer (RFC 6901); empty: all of it
	Problem string // "must be 1 to 64"
}

func (f Field) Error() string {
	switch {
	case f.Row == 0 && f.Path == "":
		return f.Problem
	case f.Row == 0:
		return f.Path + ": " + f.Problem
	case f.Path == "":
		return fmt.Sprintf("line %d: %s", f.Row, f.Problem)
	}
	return fmt.Sprintf("line %d, column %s: %s", f.Row, f.Path, f.Problem)
}

// Is implements the interface for [errors.Is].
func (Field) Is(target error) bool { return target == ErrFields }

// Fields is the error of the wrong fields of a document, a batch or a file, of which nothing was stored.
type Fields struct {
	Named []Field // the first MaxNamed, in order
	Count int64   // of bad rows
	Rows  int64   // rows that were read, including the bad ones; 0: rows are not counted
	Cut   bool    // the file could not be read beyond the last named row
}

// Error summarizes the fields in one line.
func (f *Fields) Error() string {
	if f.Rows == 0 {
		return fmt.Sprintf("%d fields are invalid", len(f.Named))
	}
	text := fmt.Sprintf("%d of %d rows cannot be taken", f.Count, f.Rows)
	if f.Cut {
		text = fmt.Sprintf("%d rows cannot be taken, and the file cannot be read to its end", f.Count)
	}
	if f.Count > int64(len(f.Named)) {
		text += fmt.Sprintf("; the first %d faults are named", len(f.Named))
	}
	return text
}

// Is implements the interface for [errors.Is].
func (*Fields) Is(target error) bool { return target == ErrFields }

// AddRow records the wrong fields of one more row.
func (f *Fields) AddRow(row int, fields ...Field) {
	for i := range fields {
		fields[i].Row = row
	}
	f.AddRows(1, fields)
}

// AddRows records that so many more rows are bad, with the first of their wrong fields. It keeps fields in the order of the rows.
func (f *Fields) AddRows(bad int64, fields []Field) {
	f.Count += bad
	f.Named = append(f.Named, fields...)
	slices.SortStableFunc(f.Named, func(a, b Field) int { return cmp.Compare(a.Row, b.Row) })
	f.Named = f.Named[:min(len(f.Named), MaxNamed)]
}

// Err returns f as the error of so many rows, or nil if no row is bad.
func (f *Fields) Err(rows int64) error {
	if f.Count == 0 {
		return nil
	}
	f.Rows = rows
	return f
}

// Join returns the error of some fields, ordered by their paths, in which row 9 is before row 10. Of several with one path it has the
// first. It returns nil if there are none.
func Join(fields []Field) error {
	if len(fields) == 0 {
		return nil
	}
	slices.SortStableFunc(fields, func(a, b Field) int { return comparePaths(a.Path, b.Path) })
	fields = slices.CompactFunc(fields, func(a, b Field) bool { return a.Path == b.Path })
	return &Fields{Named: fields[:min(len(fields), MaxNamed)]}
}

// FieldsOf returns the fields that an error names.
func FieldsOf(err error) []Field {
	if field, ok := errors.AsType[Field](err); ok {
		return []Field{field}
	}
	if fields, ok := errors.AsType[*Fields](err); ok {
		return fields.Named
	}
	return nil
}

// comparePaths puts row 9 before row 10. It allocates nothing, because every value may have an error.
func comparePaths(a, b string) int {
	for {
		segmentA, restA, moreA := strings.Cut(a, "/")
		segmentB, restB, moreB := strings.Cut(b, "/")
		order := cmp.Compare(segmentA, segmentB)
		if isNumber(segmentA) && isNumber(segmentB) {
			order = cmp.Or(cmp.Compare(len(segmentA), len(segmentB)), order)
		}
		switch {
		case order != 0:
			return order
		case !moreA || !moreB:
			return cmp.Compare(len(a), len(b))
		}
		a, b = restA, restB
	}
}

func isNumber(segment string) bool { return segment != "" && strings.Trim(segment, "0123456789") == "" }
