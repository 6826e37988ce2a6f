package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/intake"
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

	// What is deleted. What is not there is no error.
	DailyStepsRemovals        []StepsRemoval
	Removals                  []RideRemoval
	StepCorrectionRemovals    []AdjustmentRemoval
	CyclingAdjustmentRemovals []AdjustmentRemoval

	noClock []BadRow // rides with times that no clock shows
}

// AddRide adds a ride whose clock times are text that a JSON schema has checked for its form. A nil end is unknown. Where no
// clock shows such a time, [Store.Put] says so.
func (b *Batch) AddRide(userID uuid.UUID, sourceID, start string, end *string, meters int) {
	ride := RideRecord{UserID: userID, SourceID: sourceID, DistanceMeters: meters}
	read := func(column, text string) time.Time {
		at, err := time.Parse(clockLayout, text)
		if err != nil {
			row := intake.RowError{Line: len(b.CyclingActivities) + 1, Column: column, Err: errNoClock}
			b.noClock = append(b.noClock, BadRow{PartCyclingActivities, &row})
		}
		return at
	}
	ride.Start = read("recorded_start_time", start)
	if end != nil {
		ride.End = read("recorded_end_time", *end)
	}
	b.CyclingActivities = append(b.CyclingActivities, ride)
}

// BatchResult says what became of the rows of each part.
type BatchResult struct {
	DailySteps, CyclingActivities, StepCorrections, CyclingAdjustments Result

	DailyStepsRemovals, Removals, StepCorrectionRemovals, CyclingAdjustmentRemovals Removed
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
	PartDailySteps                Part = "daily_steps"
	PartCyclingActivities         Part = "cycling_activities"
	PartStepCorrections           Part = "step_corrections"
	PartCyclingAdjustments        Part = "cycling_adjustments"
	PartDailyStepsRemovals        Part = "daily_steps_removals"
	PartRemovals                  Part = "removals"
	PartStepCorrectionRemovals    Part = "step_correction_removals"
	PartCyclingAdjustmentRemovals Part = "cycling_adjustment_removals"
)

// BadRow is a row of a batch that cannot be taken: its line is its number in its part, from 1.
type BadRow struct {
	Part Part
	*intake.RowError
}

// Path leads to the field in a JSON document that has the lists of a [Batch].
func (r BadRow) Path() []string { return []string{string(r.Part), strconv.Itoa(r.Line - 1), r.Column} }

// BatchError says which rows of a batch cannot be taken: those of a part in their order, and 100 in all. Nothing of the batch was
// written then.
type BatchError []BadRow

func (e BatchError) Error() string {
	return fmt.Sprintf("%d faults in rows, the first in %s: %v", len(e), e[0].Part, e[0].RowError)
}

// Unwrap is what is wrong with each.
func (e BatchError) Unwrap() []error {
	return postgres.Map(e, func(row BadRow) error { return row.RowError })
}

// ErrBatchSize says that a batch has more rows than one may have.
var ErrBatchSize = fmt.Errorf("must have at most %d rows in all", maxBatchRows)

// Put writes a batch in one transaction, whole or not at all: then the error is a [BatchError]. Of two rows with one key the
// last one wins; what is written and removed by one batch is an error. A batch that is sent again changes nothing. Batches
// for the same user wait for each other. The other error of the caller is [ErrBatchSize].
func (s *Store) Put(ctx context.Context, batch Batch) (BatchResult, error) {
	return s.put(ctx, batch, func(pgx.Tx, BatchResult) error { return nil })
}

// put is Put with more to do at the end of the transaction.
func (s *Store) put(ctx context.Context, batch Batch, also func(pgx.Tx, BatchResult) error) (BatchResult, error) {
	var result BatchResult
	steps := newPart(PartDailySteps, stepsTable, batch.DailySteps, StepsRecord.check)
	rides := newPart(PartCyclingActivities, ridesTable, batch.CyclingActivities, RideRecord.check)
	corrections := newPart(PartStepCorrections, stepCorrectionsTable, batch.StepCorrections, AdjustmentRecord.checkSteps)
	adjustments := newPart(PartCyclingAdjustments, cyclingAdjustmentsTable, batch.CyclingAdjustments, AdjustmentRecord.checkMeters)
	written := []struct {
		part
		result *Result
	}{
		{steps, &result.DailySteps},
		{rides, &result.CyclingActivities},
		{corrections, &result.StepCorrections},
		{adjustments, &result.CyclingAdjustments},
	}
	removed := []struct {
		part
		kept   part // what the batch writes to the same table
		result *Removed
	}{
		{newPart(PartDailyStepsRemovals, stepsTable.keys(), batch.DailyStepsRemovals, StepsRemoval.check), steps, &result.DailyStepsRemovals},
		{newPart(PartRemovals, ridesTable.keys(), batch.Removals, RideRemoval.check), rides, &result.Removals},
		{newPart(PartStepCorrectionRemovals, stepCorrectionsTable.keys(), batch.StepCorrectionRemovals, AdjustmentRemoval.check),
			corrections, &result.StepCorrectionRemovals},
		{newPart(PartCyclingAdjustmentRemovals, cyclingAdjustmentsTable.keys(), batch.CyclingAdjustmentRemovals, AdjustmentRemoval.check),
			adjustments, &result.CyclingAdjustmentRemovals},
	}
	var parts []part
	for _, w := range written {
		parts = append(parts, w.part)
	}
	for _, r := range removed {
		parts = append(parts, r.keeps(r.kept))
	}
	var users []any
	for _, p := range parts {
		users = append(users, p.users()...)
	}
	if len(users) > maxBatchRows {
		return result, ErrBatchSize
	}
	if err := s.batches.Acquire(ctx); err != nil {
		return result, fmt.Errorf("activity: put: %w", err)
	}
	defer s.batches.Release()
	err := postgres.InTxAgain(ctx, s.pool, func(tx pgx.Tx) error {
		if err := allowTime(ctx, tx); err != nil {
			return err
		}
		state, err := readDatabaseState(ctx, tx)
		if err != nil {
			return err
		}
		known, err := lockUsers(ctx, tx, users, state.sharded)
		if err != nil {
			return err
		}
		if err := check(batch.noClock, parts, known); err != nil {
			return err
		}
		for _, from := range removed {
			rows := int64(len(from.users()))
			if rows == 0 {
				continue
			}
			if !state.sharded {
				if err := lockRows(ctx, tx, from.part, from.kept); err != nil {
					return err
				}
			}
			n, err := remove(ctx, tx, from.part, state.told)
			if err != nil {
				return err
			}
			*from.result = Removed{Removed: n, Rows: rows, Unchanged: rows - n}
		}
		for _, to := range written {
			rows := int64(len(to.users()))
			if rows == 0 {
				continue
			}
			merged, err := merge(ctx, tx, to.table, to.arrayRows(), "", state.told, to.args()...)
			if err != nil {
				return err
			}
			merged.Settle(rows)
			*to.result = merged
		}
		return also(tx, result)
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
	bad    []BadRow // by themselves
	arrays [][]any  // the rows, an array for each column
}

// users are those of the rows.
func (p part) users() []any { return p.arrays[0] }

// args are the arguments of [table.arrayRows].
func (p part) args() []any {
	return postgres.Map(p.arrays, func(array []any) any { return array })
}

func newPart[R record](name Part, into table, records []R, check func(R) faults) part {
	p := part{table: into, name: name, arrays: make([][]any, len(into.types))}
	var values []any
	for i, r := range records {
		for _, fault := range check(r) {
			fault.Line = i + 1
			p.bad = append(p.bad, BadRow{name, fault})
		}
		values = r.appendValues(values[:0])
		for c, value := range values {
			p.arrays[c] = append(p.arrays[c], value)
		}
	}
	return p
}

// keeps refuses to remove what the same batch writes: sent again, it would not leave what it left the first time. A key is the user
// and one more column.
func (p part) keeps(written part) part {
	type key [2]any
	kept := make(map[key]bool, len(written.users()))
	for i, user := range written.users() {
		kept[key{user, written.arrays[1][i]}] = true
	}
	for i, user := range p.users() {
		if kept[key{user, p.arrays[1][i]}] {
			p.bad = append(p.bad, BadRow{p.name, &intake.RowError{Line: i + 1, Column: p.key[1], Err: errRemoved}})
		}
	}
	return p
}

// check finds the rows that cannot be taken, now that it is known which users exist. noClock are found already.
func check(noClock []BadRow, parts []part, known map[any]bool) error {
	found := BatchError(slices.Clone(noClock))
	for _, p := range parts {
		for i, user := range p.users() {
			if !known[user] {
				found = append(found, BadRow{p.name, &intake.RowError{Line: i + 1, Column: "user_id", Err: ErrUnknownUser}})
			}
		}
		found = append(found, p.bad...)
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b BadRow) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	// A time that no clock shows is out of bounds, too: one reason is enough.
	found = slices.CompactFunc(found, func(a, b BadRow) bool {
		return a.Part == b.Part && a.Line == b.Line && a.Column == b.Column
	})
	return found[:min(len(found), intake.MaxNamed)]
}
