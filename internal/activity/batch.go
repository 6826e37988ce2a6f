package activity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
)

// maxBatchRows is the most that a batch holds, of all its parts together.
const maxBatchRows = 10_000

// Batch is what is written at one time: 10,000 rows at most.
type Batch struct {
	DailySteps         []StepsRecord      // upserted by user and date
	CyclingActivities  []RideRecord       // upserted by user and source id, also when the start has changed
	StepCorrections    []AdjustmentRecord // upserted by user and id, also when the date has changed
	CyclingAdjustments []AdjustmentRecord // the same
	Removals           []RideRemoval      // rides to delete; one that is not there is no error
}

// AddRide adds a ride whose clock times are text that a JSON schema has checked for its form. A nil end is unknown. The
// error is a [BatchError]: no clock shows such a time.
func (b *Batch) AddRide(userID uuid.UUID, sourceID, start string, end *string, meters int) error {
	ride := RideRecord{UserID: userID, SourceID: sourceID, DistanceMeters: meters}
	noClock := func(column string) error {
		return &BatchError{PartCyclingActivities, &RowError{len(b.CyclingActivities) + 1, column, errNoClock}}
	}
	var err error
	if ride.Start, err = time.Parse(clockLayout, start); err != nil {
		return noClock("recorded_start_time")
	}
	if end != nil {
		if ride.End, err = time.Parse(clockLayout, *end); err != nil {
			return noClock("recorded_end_time")
		}
	}
	b.CyclingActivities = append(b.CyclingActivities, ride)
	return nil
}

// BatchResult says what became of the rows of each part.
type BatchResult struct {
	DailySteps, CyclingActivities, StepCorrections, CyclingAdjustments Result

	Removals Removed
}

// Removed counts rows that name what is to be deleted.
type Removed struct {
	Removed   int64
	Rows      int64
	Unchanged int64 // not there before, or named twice
}

// Part is one of the lists of a [Batch], as JSON documents call it.
type Part string

// The parts, in the order in which their rows are checked.
const (
	PartDailySteps         Part = "daily_steps"
	PartCyclingActivities  Part = "cycling_activities"
	PartStepCorrections    Part = "step_corrections"
	PartCyclingAdjustments Part = "cycling_adjustments"
	PartRemovals           Part = "removals"
)

// BatchError says which part of a batch has a row that cannot be taken. Nothing of the batch was written then.
type BatchError struct {
	Part Part // empty when the batch as a whole cannot be taken
	*RowError
}

func (e *BatchError) Unwrap() error { return e.RowError }

// Path leads to the field in a JSON document that has the lists of a [Batch].
func (e *BatchError) Path() []string {
	if e.Part == "" {
		return nil
	}
	return []string{string(e.Part), strconv.Itoa(e.Line - 1), e.Column}
}

// Put writes a batch in one transaction, whole or not at all: then the error is a [BatchError], which holds a [RowError]
// with the number of the row in its part, from 1. Of two rows with one key the last one wins; a ride that is written and
// removed by one batch is an error. A batch that is sent again changes nothing. Batches for the same user wait for each
// other.
func (s *Store) Put(ctx context.Context, batch Batch) (BatchResult, error) {
	var result BatchResult
	steps := newPart(PartDailySteps, stepsTable, batch.DailySteps, StepsRecord.check)
	rides := newPart(PartCyclingActivities, ridesTable, batch.CyclingActivities, RideRecord.check)
	corrections := newPart(PartStepCorrections, stepCorrectionsTable, batch.StepCorrections, AdjustmentRecord.checkSteps)
	adjustments := newPart(PartCyclingAdjustments, cyclingAdjustmentsTable, batch.CyclingAdjustments, AdjustmentRecord.checkMeters)
	removals := newPart(PartRemovals, removalsTable, batch.Removals, checkRemoval(batch.CyclingActivities))
	parts := []part{steps, rides, corrections, adjustments, removals}
	rows := 0
	for _, p := range parts {
		rows += p.rows
	}
	if rows > maxBatchRows {
		return result, &BatchError{RowError: &RowError{Err: fmt.Errorf("must have at most %d rows in all", maxBatchRows)}}
	}
	if err := s.batches.Acquire(ctx); err != nil {
		return result, fmt.Errorf("activity: put: %w", err)
	}
	defer s.batches.Release()
	err := postgres.InTxAgain(ctx, s.pool, func(tx pgx.Tx) error {
		if err := allowTime(ctx, tx); err != nil {
			return err
		}
		around, err := look(ctx, tx)
		if err != nil {
			return err
		}
		if !around.sharded {
			if err := lockUsers(ctx, tx, parts); err != nil {
				return err
			}
		}
		for _, p := range parts {
			if err := p.check(ctx, tx); err != nil {
				return err
			}
		}
		if removals.rows > 0 {
			if !around.sharded {
				if err := lockRides(ctx, tx, removals, rides); err != nil {
					return err
				}
			}
			removed, err := removeRides(ctx, tx, removals, around.told)
			if err != nil {
				return err
			}
			result.Removals = Removed{Removed: removed, Rows: int64(removals.rows), Unchanged: int64(removals.rows) - removed}
		}
		for _, to := range []struct {
			part
			result *Result
		}{
			{steps, &result.DailySteps},
			{rides, &result.CyclingActivities},
			{corrections, &result.StepCorrections},
			{adjustments, &result.CyclingAdjustments},
		} {
			if to.rows == 0 {
				continue
			}
			merged, err := merge(ctx, tx, to.table, to.arrayRows(), around.told, to.args()...)
			if err != nil {
				return err
			}
			merged.settle(int64(to.rows))
			*to.result = merged
		}
		return nil
	})
	if err != nil {
		return BatchResult{}, fmt.Errorf("activity: put: %w", err)
	}
	return result, nil
}

// part is a list of a batch on its way into the database.
type part struct {
	table
	name   Part
	rows   int
	bad    *RowError // the first row that is bad by itself
	arrays [][]any   // the rows before it, an array for each column
}

// args are the arguments of [table.arrayRows].
func (p part) args() []any {
	args := make([]any, len(p.arrays))
	for i, array := range p.arrays {
		args[i] = array
	}
	return args
}

func newPart[R record](name Part, into table, records []R, check func(R) *RowError) part {
	p := part{table: into, name: name, rows: len(records), arrays: make([][]any, len(into.types))}
	var values []any
	for i, r := range records {
		if p.bad = check(r); p.bad != nil {
			p.bad.Line = i + 1
			break
		}
		values = r.appendValues(values[:0])
		for c, value := range values {
			p.arrays[c] = append(p.arrays[c], value)
		}
	}
	return p
}

// check finds the first bad row, now that the users are known, too.
func (p part) check(ctx context.Context, tx pgx.Tx) error {
	if p.rows == 0 {
		return nil
	}
	err := firstBadRow(ctx, tx, p.bad, p.arrayRows(), p.args()...)
	if bad := (*RowError)(nil); errors.As(err, &bad) {
		return &BatchError{p.name, bad}
	}
	return err
}

// checkRemoval refuses what the same batch writes: sent again, it would not leave what it left the first time.
func checkRemoval(written []RideRecord) func(RideRemoval) *RowError {
	kept := make(map[RideRemoval]bool, len(written))
	for _, r := range written {
		kept[RideRemoval{r.UserID, r.SourceID}] = true
	}
	return func(r RideRemoval) *RowError {
		switch {
		case !isSourceID(r.SourceID):
			return &RowError{Column: "source_id", Err: errSourceID}
		case kept[r]:
			return &RowError{Column: "source_id", Err: errRemoved}
		}
		return nil
	}
}

// ErrAdjustment says that a correction or adjustment cannot be taken; its text says why.
var ErrAdjustment = errors.New("invalid adjustment")

// AdjustSteps adds delta (-2^31 to 2^31-1) to what is recorded for a user's date, now and whatever is recorded for it
// later. It makes no date that has no record (specification 2.5). The note says why, in at most 1,000 characters. The
// error is [ErrAdjustment] or [ErrUnknownUser] where the caller is to blame.
func (s *Store) AdjustSteps(ctx context.Context, userID uuid.UUID, date time.Time, delta int, note string) error {
	return s.adjust(ctx, Batch{StepCorrections: []AdjustmentRecord{{userID, uuid.New(), date, delta, note}}})
}

// AdjustCycling adds deltaMeters to the distance of the rides that started on a user's date, and to no ride
// (specification 2.6, 2.7). All else is as with [Store.AdjustSteps].
func (s *Store) AdjustCycling(ctx context.Context, userID uuid.UUID, date time.Time, deltaMeters int, note string) error {
	return s.adjust(ctx, Batch{CyclingAdjustments: []AdjustmentRecord{{userID, uuid.New(), date, deltaMeters, note}}})
}

func (s *Store) adjust(ctx context.Context, one Batch) error {
	_, err := s.Put(ctx, one)
	if errors.Is(err, ErrUnknownUser) {
		return ErrUnknownUser
	}
	if bad := (*BatchError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("%w: %s %w", ErrAdjustment, bad.Column, bad.Err)
	}
	return err
}
