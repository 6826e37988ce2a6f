package activity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
)

// PutDailySteps is [Activity.Put] of nothing but daily steps.
func (a *Activity) PutDailySteps(ctx context.Context, records []StepsRecord) (Result, error) {
	result, err := a.Put(ctx, Batch{DailySteps: records})
	return result.DailySteps, err
}

// PutCyclingActivities is [Activity.Put] of nothing but rides.
func (a *Activity) PutCyclingActivities(ctx context.Context, records []RideRecord) (Result, error) {
	result, err := a.Put(ctx, Batch{CyclingActivities: records})
	return result.CyclingActivities, err
}

// Batch is what is written at one time. It is held in memory: some thousands of rows.
type Batch struct {
	DailySteps         []StepsRecord      // upserted by user and date
	CyclingActivities  []RideRecord       // upserted by user and source id, also when the start has changed
	StepCorrections    []AdjustmentRecord // upserted by user and id, also when the date has changed
	CyclingAdjustments []AdjustmentRecord // the same
	Removals           []RideRemoval      // rides to delete; one that is not there is no error
}

// BatchResult says what became of the rows of each part.
type BatchResult struct {
	DailySteps, CyclingActivities, StepCorrections, CyclingAdjustments Result

	Removals Removed
}

// Removed counts rows that name what is to go.
type Removed struct {
	Rows      int64
	Removed   int64
	Unchanged int64 // not there before, or named twice
}

// Part is one of the lists of a [Batch].
type Part int

// The parts, in the order in which their rows are looked at.
const (
	PartDailySteps Part = iota
	PartCyclingActivities
	PartStepCorrections
	PartCyclingAdjustments
	PartRemovals
)

// BatchError says which part of a batch has a row that cannot be taken. Nothing of the batch was written then.
type BatchError struct {
	Part Part
	*RowError
}

func (e *BatchError) Unwrap() error { return e.RowError }

// Put writes a batch in one transaction, whole or not at all: then the error is a [BatchError], which holds a [RowError]
// with the number of the row in its part, from 1. Of two rows for one key the last one wins; a ride that is written and
// removed by one batch is an error. A batch that is sent again changes nothing. Batches for the same user wait for each
// other.
func (a *Activity) Put(ctx context.Context, batch Batch) (BatchResult, error) {
	parts := []part{
		stepsPart(batch.DailySteps),
		ridesPart(batch.CyclingActivities),
		adjustmentsPart(PartStepCorrections, batch.StepCorrections),
		adjustmentsPart(PartCyclingAdjustments, batch.CyclingAdjustments),
		removalsPart(batch.Removals, batch.CyclingActivities),
	}
	if err := a.batches.Acquire(ctx); err != nil {
		return BatchResult{}, fmt.Errorf("activity: put: %w", err)
	}
	defer a.batches.Release()
	var results [PartRemovals]Result
	removals := Removed{Rows: int64(len(batch.Removals))}
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) (err error) {
		if err := allowTime(ctx, tx); err != nil {
			return err
		}
		if err := lockUsers(ctx, tx, batch.users()); err != nil {
			return err
		}
		for _, p := range parts {
			if err := p.check(ctx, tx); err != nil {
				return err
			}
		}
		if len(batch.Removals) > 0 {
			if err := lockRides(ctx, tx, batch); err != nil {
				return err
			}
			if removals.Removed, err = removeRides(ctx, tx, parts[PartRemovals].rowSource); err != nil {
				return err
			}
		}
		for i := range results {
			if parts[i].rows == 0 {
				continue
			}
			if results[i], err = merge(ctx, tx, parts[i].rowSource); err != nil {
				return fmt.Errorf("%s: %w", parts[i].name, err)
			}
			results[i].settle(int64(parts[i].rows))
		}
		return nil
	})
	if err != nil {
		return BatchResult{}, fmt.Errorf("activity: put: %w", err)
	}
	removals.Unchanged = removals.Rows - removals.Removed
	return BatchResult{
		results[PartDailySteps], results[PartCyclingActivities], results[PartStepCorrections],
		results[PartCyclingAdjustments], removals,
	}, nil
}

// users are all that the batch names.
func (b Batch) users() []uuid.UUID {
	named := map[uuid.UUID]bool{}
	for _, r := range b.DailySteps {
		named[r.UserID] = true
	}
	for _, r := range b.CyclingActivities {
		named[r.UserID] = true
	}
	for _, r := range b.StepCorrections {
		named[r.UserID] = true
	}
	for _, r := range b.CyclingAdjustments {
		named[r.UserID] = true
	}
	for _, r := range b.Removals {
		named[r.UserID] = true
	}
	return slices.Collect(maps.Keys(named))
}

// part is a list of a batch on its way into the database.
type part struct {
	rowSource // the rows before the first bad one
	part      Part
	rows      int       // all of them
	bad       *RowError // the first row that is bad by itself
}

func newPart(which Part, rows int, bad *RowError, source rowSource) part {
	return part{rowSource: source, part: which, rows: rows, bad: bad}
}

// check finds the first bad row, now that the users are known, too.
func (p part) check(ctx context.Context, tx pgx.Tx) error {
	if p.rows == 0 {
		return nil
	}
	err := firstBadRow(ctx, tx, p.rowSource, p.bad)
	if bad := (*RowError)(nil); errors.As(err, &bad) {
		return &BatchError{p.part, bad}
	}
	return err
}

// goodRows are the rows before the first bad one, and that.
func goodRows[R any](rows []R, check func(R) *columnError) ([]R, *RowError) {
	for i, row := range rows {
		if err := check(row); err != nil {
			return rows[:i], err.at(i + 1)
		}
	}
	return rows, nil
}

func stepsPart(records []StepsRecord) part {
	good, bad := goodRows(records, StepsRecord.check)
	n := len(good)
	users, dates, steps := make([]uuid.UUID, n), make([]time.Time, n), make([]int, n)
	for i, r := range good {
		users[i], dates[i], steps[i] = r.UserID, r.Date, r.Steps
	}
	return newPart(PartDailySteps, len(records), bad, stepsTable.batch(users, dates, steps))
}

func ridesPart(records []RideRecord) part {
	good, bad := goodRows(records, RideRecord.check)
	n := len(good)
	users, sources, meters := make([]uuid.UUID, n), make([]string, n), make([]int, n)
	starts, ends := make([]time.Time, n), make([]*time.Time, n)
	for i, r := range good {
		users[i], sources[i], meters[i] = r.UserID, r.SourceID, r.DistanceMeters
		starts[i], ends[i] = r.Start, r.end()
	}
	return newPart(PartCyclingActivities, len(records), bad, ridesTable.batch(users, sources, starts, ends, meters))
}

func adjustmentsPart(which Part, records []AdjustmentRecord) part {
	into, delta := correctionsTable, "delta"
	if which == PartCyclingAdjustments {
		into, delta = adjustmentsTable, "delta_meters"
	}
	good, bad := goodRows(records, func(r AdjustmentRecord) *columnError { return r.check(delta) })
	n := len(good)
	users, ids, dates := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]time.Time, n)
	deltas, notes := make([]int, n), make([]string, n)
	for i, r := range good {
		users[i], ids[i], dates[i], deltas[i], notes[i] = r.UserID, r.ID, r.Date, r.Delta, r.Note
	}
	return newPart(which, len(records), bad, into.batch(users, ids, dates, deltas, notes))
}

// removalsPart refuses what the same batch writes: sent again, it would not leave what it left the first time.
func removalsPart(records []RideRemoval, written []RideRecord) part {
	kept := make(map[RideRemoval]bool, len(written))
	for _, r := range written {
		kept[RideRemoval{r.UserID, r.SourceID}] = true
	}
	good, bad := goodRows(records, func(r RideRemoval) *columnError {
		switch {
		case !isSourceID(r.SourceID):
			return &columnError{"source_id", errSourceID}
		case kept[r]:
			return &columnError{"source_id", errRemoved}
		}
		return nil
	})
	users, sources := make([]uuid.UUID, len(good)), make([]string, len(good))
	for i, r := range good {
		users[i], sources[i] = r.UserID, r.SourceID
	}
	return newPart(PartRemovals, len(records), bad, removalsTable.batch(users, sources))
}
