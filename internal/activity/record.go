package activity

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// maxSourceID is how many bytes the name of a ride may have.
const maxSourceID = 128

// maxNote is how many characters a note may have.
const maxNote = 1000

// StepsRecord is the recorded total of one user and date, as it comes in.
type StepsRecord struct {
	UserID uuid.UUID
	Date   time.Time // midnight UTC, from 1900 to 9999
	Steps  int       // 0 to 2^31-1
}

// RideRecord is one ride as it comes in. A user's rides are told apart by SourceID, the name that their source gave
// them: 1 to 128 bytes of UTF-8 without NUL.
type RideRecord struct {
	UserID         uuid.UUID
	SourceID       string
	Start          time.Time // recorded clock, taken as UTC, from 1900 to 9999; exact to the microsecond
	End            time.Time // the same; zero, or before the start, is unknown
	DistanceMeters int       // 0 to 2^31-1
}

// AdjustmentRecord is a step correction or a cycling adjustment as it comes in: what is added to a user's date. A user's
// adjustments of one kind are told apart by ID, which whoever made them gave them.
type AdjustmentRecord struct {
	UserID uuid.UUID
	ID     uuid.UUID
	Date   time.Time // midnight UTC, from 1900 to 9999; a date without a record stays without one
	Delta  int       // steps or metres, -2^31 to 2^31-1, and not 0
	Note   string    // why; at most 1,000 characters of UTF-8 without NUL
}

// RideRemoval names a ride that is to be no more.
type RideRemoval struct {
	UserID   uuid.UUID
	SourceID string
}

// Result of a write. Every row that came in is counted once more: as inserted, updated or unchanged.
type Result struct {
	Rows      int64
	Inserted  int64
	Updated   int64
	Unchanged int64 // stored like that before, or replaced by a later row of the same write
}

// RowError says which row was the first that could not be taken, and why. Nothing was written then.
type RowError struct {
	Line   int    // of the file, or number of the row in the batch; from 1
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

// columnError is a RowError that does not know its line yet.
type columnError struct {
	column string
	err    error
}

func (e *columnError) at(line int) *RowError {
	return &RowError{Line: line, Column: e.column, Err: e.err}
}

var (
	errDate     = errors.New("must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31")
	errClock    = errors.New("must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone")
	errCount    = errors.New("must be a whole number from 0 to 2147483647")
	errUser     = errors.New("must be a UUID")
	errSourceID = errors.New("must have 1 to 128 bytes of UTF-8 without NUL")
	errDelta    = errors.New("must be a whole number from -2147483648 to 2147483647, and not 0")
	errNote     = fmt.Errorf("must have at most %d characters of UTF-8 without NUL", maxNote)
	errRemoved  = errors.New("is written by the same batch")
)

func (r StepsRecord) check() *columnError {
	switch {
	case !dateInBounds(r.Date):
		return &columnError{"date", errDate}
	case !countInBounds(r.Steps):
		return &columnError{"steps", errCount}
	}
	return nil
}

func (r RideRecord) check() *columnError {
	switch {
	case !isSourceID(r.SourceID):
		return &columnError{"source_id", errSourceID}
	case !yearInBounds(r.Start):
		return &columnError{"recorded_start_time", errClock}
	case !countInBounds(r.DistanceMeters):
		return &columnError{"distance_meters", errCount}
	}
	return nil
}

// check names the delta as the caller does.
func (r AdjustmentRecord) check(delta string) *columnError {
	switch {
	case !dateInBounds(r.Date):
		return &columnError{"date", errDate}
	case r.Delta < math.MinInt32 || r.Delta > math.MaxInt32 || r.Delta == 0:
		return &columnError{delta, errDelta}
	case !isText(r.Note) || utf8.RuneCountInString(r.Note) > maxNote:
		return &columnError{"note", errNote}
	}
	return nil
}

func isSourceID(text string) bool { return text != "" && len(text) <= maxSourceID && isText(text) }

// end is nil when unknown: a ride that ended before it began has no end that means anything (specification 2.7).
func (r RideRecord) end() *time.Time {
	if r.End.Before(r.Start) || !yearInBounds(r.End) {
		return nil
	}
	return &r.End
}

func countInBounds(n int) bool { return n >= 0 && n <= math.MaxInt32 }

func yearInBounds(t time.Time) bool { return t.Year() >= 1900 && t.Year() <= 9999 }

func dateInBounds(t time.Time) bool {
	return yearInBounds(t) && t.Location() == time.UTC && t.Equal(t.Truncate(24*time.Hour))
}

// isText tells whether PostgreSQL takes the text.
func isText(text string) bool {
	for i := range len(text) {
		if text[i] == 0 {
			return false
		}
	}
	return utf8.ValidString(text)
}
