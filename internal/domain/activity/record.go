package activity

import (
	"context"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const maxSourceID = 128 // bytes of a ride's source id

// MaxNote is the length of an adjustment's note in characters.
const MaxNote = 1000

// StepsRecord is the recorded total of one user and date, as a source sends it.
type StepsRecord struct {
	UserID uuid.UUID
	Date   time.Time // midnight UTC, from 1900 to 9999
	Steps  int       // 0 to 2^31-1

	ObservedAt time.Time // when the source saw it; zero: not told
}

// RideRecord is one ride as a source sends it. SourceID, the name that the source gave the ride, identifies it among the user's
// rides: 1 to 128 bytes of UTF-8 without NUL.
type RideRecord struct {
	UserID         uuid.UUID
	SourceID       string
	Start          time.Time // recorded clock, taken as UTC, from 1900 to 9999; exact to the microsecond
	End            time.Time // the same; zero, or before the start, is unknown
	DistanceMeters int       // 0 to 2^31-1
	ObservedAt     time.Time // when the source saw it; zero: not told
}

// AdjustmentRecord is a step correction or a cycling adjustment as a source sends it. It adds to the total of a user's date. ID, which
// the source chose, identifies it among the user's adjustments of its kind.
type AdjustmentRecord struct {
	UserID uuid.UUID
	ID     uuid.UUID
	Date   time.Time // midnight UTC, from 1900 to 9999; a date without a record stays without one
	Delta  int       // steps or metres, -2^31 to 2^31-1, and not 0
	Note   string    // the reason; at most 1,000 characters of UTF-8 without NUL
}

// Result of a write.
type Result = intake.Result

// Why a field is refused.
const (
	noDate  = "must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31"
	noCount = "must be a whole number from 0 to 2147483647"

	noInstant = "must be an instant such as 2026-01-31T18:30:00Z (RFC 3339)"
)

// record is a row as a source sends it. appendValues appends the row's key and values in the order of its table, the user first.
type record interface{ appendValues(to []any) []any }

// rowErrors are the errors of a record, by column. The caller says which row it is.
type rowErrors []refusal.Field

func (e *rowErrors) unless(good bool, column, problem string) {
	if !good {
		*e = append(*e, refusal.Field{Path: column, Problem: problem})
	}
}

func (r StepsRecord) checkKey() (bad rowErrors) {
	bad.unless(dateInBounds(r.Date), "date", noDate)
	return bad
}

func (r StepsRecord) check() rowErrors {
	bad := r.checkKey()
	bad.unless(countInBounds(r.Steps), "steps", noCount)
	return bad
}

func (r StepsRecord) appendValues(to []any) []any {
	return append(to, pgUUID(r.UserID), r.Date, r.Steps, observation(r.ObservedAt))
}

func (r RideRecord) checkKey() (bad rowErrors) {
	bad.unless(r.SourceID != "" && len(r.SourceID) <= maxSourceID && text.IsStorable(r.SourceID), "source_id", "must have 1 to 128 bytes of UTF-8 without NUL")
	return bad
}

func (r RideRecord) check() rowErrors {
	bad := r.checkKey()
	bad.unless(yearInBounds(r.Start), "recorded_start_time",
		"must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone")
	bad.unless(countInBounds(r.DistanceMeters), "distance_meters", noCount)
	return bad
}

func (r RideRecord) appendValues(to []any) []any {
	return append(to, pgUUID(r.UserID), r.SourceID, r.Start, r.end(), r.DistanceMeters, observation(r.ObservedAt))
}

// observation returns nil for the zero time, and microseconds, as they are stored.
func observation(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return new(at.Truncate(time.Microsecond))
}

// end returns nil if the end is unknown or before the start (specification 2.7).
func (r RideRecord) end() *time.Time {
	if r.End.Before(r.Start) || !yearInBounds(r.End) {
		return nil
	}
	return &r.End
}

func (r AdjustmentRecord) checkSteps() rowErrors  { return r.check("correction_id", "delta") }
func (r AdjustmentRecord) checkMeters() rowErrors { return r.check("adjustment_id", "delta_meters") }

func (r AdjustmentRecord) check(id, delta string) (bad rowErrors) {
	bad.unless(r.ID != uuid.Nil, id, "must not be the nil UUID") // of a source without ids each row would replace the one before
	bad.unless(dateInBounds(r.Date), "date", noDate)
	bad.unless(r.Delta >= math.MinInt32 && r.Delta <= math.MaxInt32 && r.Delta != 0, delta,
		"must be a whole number from -2147483648 to 2147483647, and not 0")
	bad.unless(text.IsStorable(r.Note) && utf8.RuneCountInString(r.Note) <= MaxNote, "note",
		fmt.Sprintf("must have at most %d characters of UTF-8 without NUL", MaxNote))
	return bad
}

func (r AdjustmentRecord) appendValues(to []any) []any {
	return append(to, pgUUID(r.UserID), pgUUID(r.ID), r.Date, r.Delta, r.Note)
}

func (r AdjustmentRecord) checkKey() rowErrors { return nil }

// pgUUID converts to the driver's own type, which saves it from finding an encoding for each row.
func pgUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func countInBounds(n int) bool { return n >= 0 && n <= math.MaxInt32 }

func yearInBounds(t time.Time) bool { return t.Year() >= 1900 && t.Year() <= 9999 }

func dateInBounds(t time.Time) bool {
	return yearInBounds(t) && t.Location() == time.UTC && t.Equal(t.Truncate(24*time.Hour))
}

// databaseState holds the facts about the database that a write needs.
type databaseState struct {
	notify bool // a client has a webhook, so that changes are recorded for it
	now    time.Time
	// sharded reports that users are spread over several databases (Citus). There, one statement cannot lock rows in several of
	// them. Conflicts that the locks prevent are detected instead: the foreign key refuses a user who was deleted, and of two writes
	// in a deadlock one is retried.
	sharded bool
}

func readState(ctx context.Context, tx pgx.Tx) (databaseState, error) {
	row, err := activitydb.New(tx).StateForWrite(ctx, struct{}{}) // the pool fills in the time
	return databaseState{row.Notify, row.Now, row.Sharded}, err
}

// merge runs [table.merge], and returns its counts.
func merge(ctx context.Context, tx pgx.Tx, into table, statement string, args ...any) (result Result, err error) {
	for {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			return tx.QueryRow(ctx, statement, args...).Scan(&result.Inserted, &result.Updated, &result.Outdated)
		})
		// Rides and adjustments have two unique keys, and the statement resolves conflicts of one of them. If two merges insert
		// the same row at the same time, one can fail on the other key; the second time it finds the row.
		if into.primaryKey != "" && postgres.Violates(err, into.primaryKey) {
			continue
		}
		if err != nil {
			return Result{}, fmt.Errorf("merge into %s: %w", into.stored, err)
		}
		return result, nil
	}
}
