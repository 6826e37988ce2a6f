package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/intake"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
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
		stored part // that the batch writes to the same table
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
		parts = append(parts, r.refuseStored(r.stored))
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
		for _, from := range removed {
			rows := int64(len(from.users()))
			if rows == 0 {
				continue
			}
			if !state.sharded {
				if err := lockRows(ctx, tx, from.part, from.stored); err != nil {
					return err
				}
			}
			n, err := remove(ctx, tx, from.part, state.notify)
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
			merged, err := merge(ctx, tx, to.table, to.arrayRows(), "", state.notify, to.args()...)
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
	bad    []BadRow // found without the database
	arrays [][]any  // the rows, an array for each column
}

// users returns the user of each row.
func (p part) users() []any { return p.arrays[0] }

// args returns the arguments of [table.arrayRows].
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

// allowTime raises the timeout of the statements of a batch to the time of its request (decisions, section 5: 30 s).
func allowTime(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "set local statement_timeout = '28s'")
	return err
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

// lockRows locks the rows that a batch removes or writes, in the order in which a merge locks them. This prevents deadlocks with
// imports.
func lockRows(ctx context.Context, tx pgx.Tx, removals, written part) error {
	both := removals
	both.arrays = make([][]any, len(removals.key))
	for i := range both.arrays {
		both.arrays[i] = slices.Concat(removals.arrays[i], written.arrays[i])
	}
	_, err := tx.Exec(ctx, both.lock(), both.args()...)
	return postgres.Wrap("lock rows of "+both.stored, err)
}

// remove deletes the rows that a part names, and returns how many existed.
func remove(ctx context.Context, tx pgx.Tx, named part, notify bool) (removed int64, err error) {
	err = tx.QueryRow(ctx, named.remove(notify), named.args()...).Scan(&removed)
	return removed, postgres.Wrap("remove from "+named.stored, err)
}
