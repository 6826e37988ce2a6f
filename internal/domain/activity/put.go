package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Put writes a batch in one transaction, whole or not at all. Of two rows with one key the last one wins; writing and removing one
// row in a batch is an error. A batch that is sent again changes nothing. Batches for the same user wait for each other. Errors:
// [BatchError], [ErrBatchSize].
func (s *Store) Put(ctx context.Context, batch Batch) (BatchResult, error) {
	return s.putAnd(ctx, batch, func(pgx.Tx, BatchResult) error { return nil })
}

// putAnd is Put with one more function, called at the end of the transaction.
func (s *Store) putAnd(ctx context.Context, batch Batch, also func(pgx.Tx, BatchResult) error) (BatchResult, error) {
	var result BatchResult
	sets := []dataset{
		{newPart(PartDailySteps, stepsTable, batch.DailySteps, StepsRecord.check),
			newPart(PartDailyStepsRemovals, stepsTable.keys(), batch.DailyStepsRemovals, StepsRecord.checkKey),
			&result.DailySteps, &result.DailyStepsRemovals},
		{newPart(PartCyclingActivities, ridesTable, batch.CyclingActivities, RideRecord.check),
			newPart(PartRemovals, ridesTable.keys(), batch.Removals, RideRecord.checkKey),
			&result.CyclingActivities, &result.Removals},
		{newPart(PartStepCorrections, stepCorrectionsTable, batch.StepCorrections, AdjustmentRecord.checkSteps),
			newPart(PartStepCorrectionRemovals, stepCorrectionsTable.keys(), batch.StepCorrectionRemovals, AdjustmentRecord.checkKey),
			&result.StepCorrections, &result.StepCorrectionRemovals},
		{newPart(PartCyclingAdjustments, cyclingAdjustmentsTable, batch.CyclingAdjustments, AdjustmentRecord.checkMeters),
			newPart(PartCyclingAdjustmentRemovals, cyclingAdjustmentsTable.keys(), batch.CyclingAdjustmentRemovals, AdjustmentRecord.checkKey),
			&result.CyclingAdjustments, &result.CyclingAdjustmentRemovals},
	}
	var parts []part
	var users []any
	for _, set := range sets {
		parts = append(parts, set.written, set.removed.refuseStored(set.written))
		users = append(append(users, set.written.users()...), set.removed.users()...)
	}
	if len(users) > maxBatchRows {
		return result, ErrBatchSize
	}
	if err := s.batches.Acquire(ctx); err != nil {
		return result, fmt.Errorf("activity: put: %w", err)
	}
	defer s.batches.Release()
	err := postgres.InTxAgain(ctx, s.pool, func(tx pgx.Tx) error {
		// The request of a batch may take 30 s (decisions, section 5).
		if _, err := tx.Exec(ctx, "set local statement_timeout = '28s'"); err != nil {
			return err
		}
		state, err := readState(ctx, tx)
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
		for _, set := range sets {
			if err := set.write(ctx, tx, state); err != nil {
				return err
			}
		}
		return also(tx, result)
	})
	if err != nil {
		return BatchResult{}, fmt.Errorf("activity: put: %w", err)
	}
	return result, nil
}

// dataset is the parts of a batch for one table, with their results.
type dataset struct {
	written, removed part
	result           *Result
	removedResult    *Removed
}

func (d dataset) write(ctx context.Context, tx pgx.Tx, state databaseState) error {
	if rows := int64(len(d.removed.users())); rows > 0 {
		if !state.sharded {
			if err := d.lockRows(ctx, tx); err != nil {
				return err
			}
		}
		var n int64
		if err := tx.QueryRow(ctx, d.removed.remove(state.sharded, state.notify), d.removed.args()...).Scan(&n); err != nil {
			return fmt.Errorf("remove from %s: %w", d.removed.stored, err)
		}
		*d.removedResult = Removed{Removed: n, Rows: rows, Unchanged: rows - n}
	}
	if rows := int64(len(d.written.users())); rows > 0 {
		merged, err := merge(ctx, tx, d.written.table, d.written.merge(d.written.arrayRows(), "", state.sharded, state.notify), d.written.args()...)
		if err != nil {
			return err
		}
		merged.Settle(rows)
		*d.result = merged
	}
	return nil
}

// lockRows locks the rows that a batch removes or writes, in the order in which a merge locks them. This prevents deadlocks with
// imports.
func (d dataset) lockRows(ctx context.Context, tx pgx.Tx) error {
	both := d.removed
	both.arrays = make([][]any, len(both.key))
	for i := range both.arrays {
		both.arrays[i] = slices.Concat(d.removed.arrays[i], d.written.arrays[i])
	}
	_, err := tx.Exec(ctx, both.lock(), both.args()...)
	return postgres.Wrap("lock rows of "+both.stored, err)
}

// part is a list of a batch on its way into the database.
type part struct {
	table
	name   Part
	bad    []BadRow // found without the database
	arrays [][]any  // the rows, an array for each column
}

func (p part) users() []any { return p.arrays[0] }

// args returns the arguments of [table.arrayRows].
func (p part) args() []any {
	return postgres.Map(p.arrays, func(array []any) any { return array })
}

func newPart[R record](name Part, into table, records []R, check func(R) rowErrors) part {
	p := part{table: into, name: name, arrays: make([][]any, len(into.types))}
	var values []any
	for i, r := range records {
		for _, wrong := range check(r) {
			wrong.Line = i + 1
			p.bad = append(p.bad, BadRow{name, wrong})
		}
		values = r.appendValues(values[:0])
		for c := range p.arrays {
			p.arrays[c] = append(p.arrays[c], values[c])
		}
	}
	return p
}

// refuseStored marks removals of rows that the same batch writes as bad: sent again, such a batch would have another outcome. A key
// is the user and one more column.
func (p part) refuseStored(written part) part {
	type key [2]any
	stored := make(map[key]bool, len(written.users()))
	for i, user := range written.users() {
		stored[key{user, written.arrays[1][i]}] = true
	}
	for i, user := range p.users() {
		if stored[key{user, p.arrays[1][i]}] {
			p.bad = append(p.bad, BadRow{p.name, &intake.RowError{Line: i + 1, Column: p.key[1], Err: errRemoved}})
		}
	}
	return p
}

// check returns the error of all invalid rows, including noClock and the rows of unknown users.
func check(noClock []BadRow, parts []part, known map[any]bool) error {
	found := BatchError(slices.Clone(noClock))
	for _, p := range parts {
		for i, user := range p.users() {
			if !known[user] {
				found = append(found, BadRow{p.name, &intake.RowError{Line: i + 1, Column: "user_id", Err: refusal.ErrUserNotFound}})
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
	// A time that does not exist is also out of bounds: one reason is enough.
	found = slices.CompactFunc(found, func(a, b BadRow) bool {
		return a.Part == b.Part && a.Line == b.Line && a.Column == b.Column
	})
	return found[:min(len(found), intake.MaxNamed)]
}

// lockUsers returns the users that exist. Its lock serializes batches for the same users, and keeps the users from being deleted until
// the batch is done. It is the weakest lock that does so: connecting, signing in and imports continue. If users are sharded it
// locks none.
func lockUsers(ctx context.Context, tx pgx.Tx, users []any, sharded bool) (known map[any]bool, err error) {
	query := "select user_id from users where user_id = any ($1) order by user_id"
	if !sharded {
		query += " for no key update"
	}
	rows, _ := tx.Query(ctx, query, users) // ForEachRow has its error
	known = map[any]bool{}
	var user uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&user}, func() error {
		known[pgUUID(user)] = true
		return nil
	})
	return known, postgres.Wrap("lock the users", err)
}

// maxBatchRows bounds the rows of a batch, in all its parts together.
const maxBatchRows = 10_000

// Batch holds rows that are written together: 10,000 at most.
type Batch struct {
	DailySteps         []StepsRecord      // upserted by user and date
	CyclingActivities  []RideRecord       // upserted by user and source id, even if the start has changed
	StepCorrections    []AdjustmentRecord // upserted by user and id, even if the date has changed
	CyclingAdjustments []AdjustmentRecord // the same

	// Rows to delete, by their keys; the other fields are ignored. A row that does not exist is not an error. The corrections of a
	// deleted day stay, and count again if the day is recorded again.
	DailyStepsRemovals        []StepsRecord
	Removals                  []RideRecord
	StepCorrectionRemovals    []AdjustmentRecord
	CyclingAdjustmentRemovals []AdjustmentRecord

	noClock []BadRow // rides with times that do not exist, such as 25:00
}

// AddRide adds a ride whose clock times are text that a JSON schema has checked for its form. A nil end is unknown. [Store.Put]
// reports times that do not exist.
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

// BatchResult counts the outcomes of the rows of each part.
type BatchResult struct {
	DailySteps, CyclingActivities, StepCorrections, CyclingAdjustments Result

	DailyStepsRemovals, Removals, StepCorrectionRemovals, CyclingAdjustmentRemovals Removed
}

// Removed counts rows of a part that deletes.
type Removed struct {
	Removed   int64
	Rows      int64
	Unchanged int64 // did not exist, or named twice
}

// Part is one of the lists of a [Batch], by its name in JSON documents.
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

// BadRow is an invalid row of a batch. Its line is its number in its part, from 1.
type BadRow struct {
	Part Part
	*intake.RowError
}

// Path returns the path of the field in a JSON document that has the lists of a [Batch].
func (r BadRow) Path() []string { return []string{string(r.Part), strconv.Itoa(r.Line - 1), r.Column} }

// BatchError lists the invalid rows of a batch, in the order of parts and rows, up to 100. Nothing of the batch was written.
type BatchError []BadRow

func (e BatchError) Error() string {
	return fmt.Sprintf("%d faults in rows, the first in %s: %v", len(e), e[0].Part, e[0].RowError)
}

// Unwrap returns the error of each row.
func (e BatchError) Unwrap() []error {
	return postgres.Map(e, func(row BadRow) error { return row.RowError })
}

// ErrBatchSize is the error for a batch with too many rows.
var ErrBatchSize = fmt.Errorf("must have at most %d rows in all", maxBatchRows)
