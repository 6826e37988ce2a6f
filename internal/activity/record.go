package activity

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	maxSourceID = 128  // bytes of a ride's source id
	maxNote     = 1000 // characters of a note
)

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
// adjustments of one kind are told apart by ID, which their source gave them.
type AdjustmentRecord struct {
	UserID uuid.UUID
	ID     uuid.UUID
	Date   time.Time // midnight UTC, from 1900 to 9999; a date without a record stays without one
	Delta  int       // steps or metres, -2^31 to 2^31-1, and not 0
	Note   string    // why; at most 1,000 characters of UTF-8 without NUL
}

// RideRemoval names a ride to delete.
type RideRemoval struct {
	UserID   uuid.UUID
	SourceID string
}

// Result of a write. Each row is counted in Rows and in one of the others.
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

var (
	errDate     = errors.New("must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31")
	errClock    = errors.New("must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone")
	errNoClock  = errors.New("must be a clock time that exists")
	errCount    = errors.New("must be a whole number from 0 to 2147483647")
	errUser     = errors.New("must be a UUID")
	errSourceID = errors.New("must have 1 to 128 bytes of UTF-8 without NUL")
	errDelta    = errors.New("must be a whole number from -2147483648 to 2147483647, and not 0")
	errNote     = fmt.Errorf("must have at most %d characters of UTF-8 without NUL", maxNote)
	errRemoved  = errors.New("is written by the same batch")
)

// record is a row as it comes in. appendValues appends what the row has for its table's key and values.
type record interface {
	appendValues(to []any) []any
}

// The checks of records leave the line of the error to the caller.

func (r StepsRecord) check() *RowError {
	switch {
	case !dateInBounds(r.Date):
		return &RowError{Column: "date", Err: errDate}
	case !countInBounds(r.Steps):
		return &RowError{Column: "steps", Err: errCount}
	}
	return nil
}

func (r StepsRecord) appendValues(to []any) []any {
	return append(to, pgUUID(r.UserID), r.Date, r.Steps)
}

func (r RideRecord) check() *RowError {
	switch {
	case !isSourceID(r.SourceID):
		return &RowError{Column: "source_id", Err: errSourceID}
	case !yearInBounds(r.Start):
		return &RowError{Column: "recorded_start_time", Err: errClock}
	case !countInBounds(r.DistanceMeters):
		return &RowError{Column: "distance_meters", Err: errCount}
	}
	return nil
}

func (r RideRecord) appendValues(to []any) []any {
	return append(to, pgUUID(r.UserID), r.SourceID, r.Start, r.end(), r.DistanceMeters)
}

// end is nil when unknown: a ride that ended before it began has no end that means anything (specification 2.7).
func (r RideRecord) end() *time.Time {
	if r.End.Before(r.Start) || !yearInBounds(r.End) {
		return nil
	}
	return &r.End
}

func (r AdjustmentRecord) checkSteps() *RowError  { return r.check("delta") }
func (r AdjustmentRecord) checkMeters() *RowError { return r.check("delta_meters") }

func (r AdjustmentRecord) check(delta string) *RowError {
	switch {
	case !dateInBounds(r.Date):
		return &RowError{Column: "date", Err: errDate}
	case r.Delta < math.MinInt32 || r.Delta > math.MaxInt32 || r.Delta == 0:
		return &RowError{Column: delta, Err: errDelta}
	case !isText(r.Note) || utf8.RuneCountInString(r.Note) > maxNote:
		return &RowError{Column: "note", Err: errNote}
	}
	return nil
}

func (r AdjustmentRecord) appendValues(to []any) []any {
	return append(to, pgUUID(r.UserID), pgUUID(r.ID), r.Date, r.Delta, r.Note)
}

func (r RideRemoval) appendValues(to []any) []any { return append(to, pgUUID(r.UserID), r.SourceID) }

// pgUUID spares the driver finding out, for each row again, how a uuid.UUID is to be written.
func pgUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func isSourceID(text string) bool { return text != "" && len(text) <= maxSourceID && isText(text) }

func countInBounds(n int) bool { return n >= 0 && n <= math.MaxInt32 }

func yearInBounds(t time.Time) bool { return t.Year() >= 1900 && t.Year() <= 9999 }

func dateInBounds(t time.Time) bool {
	return yearInBounds(t) && t.Location() == time.UTC && t.Equal(t.Truncate(24*time.Hour))
}

// isText tells whether PostgreSQL takes the text.
func isText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
