package activity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Put writes a batch in one transaction, whole or not at all. A row that was observed before the stored one does not replace it. Of rows with one key
// one without an observation wins, otherwise the one that was observed last, and of several the last one. Writing and removing one row in a
// batch is an error. A batch that is sent again changes nothing. Batches for the same user wait for each other. Errors:
// [refusal.Fields], refusal.Field for too many rows.
func (s *Store) Put(ctx context.Context, batch Batch) (BatchResult, error) {
	return s.putAnd(ctx, batch, func(pgx.Tx, BatchResult) error { return nil })
}

// errPreviewed ends the transaction of a preview.
var errPreviewed = errors.New("activity: nothing is written for a preview")

// Preview returns what [Store.Put] would do with a batch, and changes nothing: its transaction is rolled back.
func (s *Store) Preview(ctx context.Context, batch Batch) (would BatchResult, err error) {
	_, err = s.putAnd(ctx, batch, func(_ pgx.Tx, result BatchResult) error {
		would = result
		return errPreviewed
	})
	if errors.Is(err, errPreviewed) {
		return would, nil
	}
	return BatchResult{}, err
}

// PutAll is [Store.Put] for any number of batches: it writes all of them in one transaction, after first, or none. Their dates may be those of
// users' days at now, which first can make the time of the transaction. It may read the batches again, from the first on.
func (s *Store) PutAll(ctx context.Context, now time.Time, first func(pgx.Tx) error, batches iter.Seq[Batch]) error {
	return s.write(ctx, func(tx pgx.Tx, state databaseState) error {
		state.now = now
		if err := first(tx); err != nil {
			return err
		}
		for batch := range batches {
			prepared, err := batch.prepare()
			if err != nil {
				return err
			}
			if err := prepared.write(ctx, tx, state, s.settings.dates(state.now)); err != nil {
				return err
			}
		}
		return nil
	})
}

// putAnd is Put with one more function, called at the end of the transaction.
func (s *Store) putAnd(ctx context.Context, batch Batch, also func(pgx.Tx, BatchResult) error) (BatchResult, error) {
	prepared, err := batch.prepare()
	if err != nil {
		return BatchResult{}, err
	}
	err = s.write(ctx, func(tx pgx.Tx, state databaseState) error {
		if err := prepared.write(ctx, tx, state, s.settings.dates(state.now)); err != nil {
			return err
		}
		return also(tx, prepared.result)
	})
	if err != nil {
		return BatchResult{}, err
	}
	return prepared.result, nil
}

// write runs act in a transaction, when it is a batch's turn. act can be repeated. A batch that waits for the rows of a transaction that goes on,
// such as an import, leaves its turn to others and tries again, so that it keeps nobody else waiting.
func (s *Store) write(ctx context.Context, act func(pgx.Tx, databaseState) error) error {
	for end := time.Now().Add(28 * time.Second); ; { // the request of a batch may take 30 s (decisions, section 5)
		if err := s.batches.Acquire(ctx); err != nil {
			return fmt.Errorf("activity: put: %w", err)
		}
		err := func() error {
			defer s.batches.Release()
			return postgres.InTxAgain(ctx, s.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "select set_config('statement_timeout', '28s', true), set_config('lock_timeout', '1s', true)"); err != nil {
					return err
				}
				state, err := readState(ctx, tx)
				if err != nil {
					return err
				}
				return act(tx, state)
			})
		}()
		if !postgres.Is(err, postgres.LockNotAvailable) || time.Now().After(end) || !work.Pause(ctx, 100*time.Millisecond) {
			return postgres.Wrap("activity: put", err)
		}
	}
}

// prepared is a batch on its way into the database, and what came of it.
type prepared struct {
	sets      []dataset
	parts     []part
	users     []any
	malformed []refusal.Field
	skip      bool
	result    BatchResult
}

// prepare returns a refusal.Field for too many rows.
func (b Batch) prepare() (*prepared, error) {
	p := &prepared{malformed: b.malformed, skip: b.SkipUnknown}
	p.sets = []dataset{
		{newPart("daily_steps", stepsTable, b.DailySteps, StepsRecord.check),
			newPart("daily_steps_removals", stepsTable.keys(), b.DailyStepsRemovals, StepsRecord.checkKey),
			&p.result.DailySteps, &p.result.DailyStepsRemovals},
		{newPart("cycling_activities", ridesTable, b.CyclingActivities, RideRecord.check),
			newPart("removals", ridesTable.keys(), b.Removals, RideRecord.checkKey),
			&p.result.CyclingActivities, &p.result.Removals},
		{newPart("step_corrections", stepCorrectionsTable, b.StepCorrections, AdjustmentRecord.checkSteps),
			newPart("step_correction_removals", stepCorrectionsTable.keys(), b.StepCorrectionRemovals, AdjustmentRecord.checkKey),
			&p.result.StepCorrections, &p.result.StepCorrectionRemovals},
		{newPart("cycling_adjustments", cyclingAdjustmentsTable, b.CyclingAdjustments, AdjustmentRecord.checkMeters),
			newPart("cycling_adjustment_removals", cyclingAdjustmentsTable.keys(), b.CyclingAdjustmentRemovals, AdjustmentRecord.checkKey),
			&p.result.CyclingAdjustments, &p.result.CyclingAdjustmentRemovals},
	}
	for _, set := range p.sets {
		p.parts = append(p.parts, set.written, set.removed.refuseStored(set.written))
		p.users = append(append(p.users, set.written.users()...), set.removed.users()...)
	}
	if len(p.users) > maxBatchRows {
		return nil, refusal.Field{Problem: fmt.Sprintf("must have at most %d rows in all", maxBatchRows)}
	}
	return p, nil
}

func (p *prepared) write(ctx context.Context, tx pgx.Tx, state databaseState, dates *dates) error {
	known, err := lockUsers(ctx, tx, p.users, state.sharded)
	if err != nil {
		return err
	}
	if err := check(p.malformed, p.parts, known, p.skip, dates); err != nil {
		return err
	}
	p.result = BatchResult{}                    // it may have one of an attempt that was rolled back
	skipped, seen := &Skipped{}, map[any]bool{} // seen: the users of skipped rows
	for _, set := range p.sets {
		if p.skip {
			set.written, set.removed = set.written.of(known, seen, skipped), set.removed.of(known, seen, skipped)
			p.result.Skipped = skipped
		}
		if err := set.write(ctx, tx, state); err != nil {
			return err
		}
	}
	return nil
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
		if err := tx.QueryRow(ctx, d.removed.remove(state.sharded, d.removed.recordChanges(state.sharded, state.notify)), d.removed.args()...).Scan(&n); err != nil {
			return fmt.Errorf("remove from %s: %w", d.removed.stored, err)
		}
		*d.removedResult = Removed{Removed: n, Rows: rows, Unchanged: rows - n}
	}
	if rows := int64(len(d.written.users())); rows > 0 {
		if d.written.observed {
			for _, at := range d.written.arrays[len(d.written.arrays)-1] {
				if at, _ := at.(*time.Time); at != nil {
					*at = earlier(*at, state.now)
				}
			}
		}
		record := d.written.recordChanges(state.sharded, state.notify)
		merged, err := merge(ctx, tx, d.written.table, d.written.merge(d.written.arrayRows(), "", state.sharded, record), d.written.args()...)
		if err != nil {
			return err
		}
		merged.Settle(rows)
		*d.result = merged
	}
	return nil
}

// lockRows locks the rows that a batch removes or writes, in the order in which a merge locks them. This makes deadlocks with imports rare.
func (d dataset) lockRows(ctx context.Context, tx pgx.Tx) error {
	both := d.removed
	both.arrays = make([][]any, len(both.key))
	for i := range both.arrays {
		both.arrays[i] = slices.Concat(d.removed.arrays[i], d.written.arrays[i])
	}
	_, err := tx.Exec(ctx, both.fill(`
select from TABLE where (KEY) in (select KEY from `+both.arrayRows()+`) order by KEY for update`), both.args()...)
	return postgres.Wrap("lock rows of "+both.stored, err)
}

// part is a list of a batch on its way into the database.
type part struct {
	table
	name   string          // in JSON documents
	bad    []refusal.Field // found without the database
	arrays [][]any         // the rows, an array for each column
}

func (p part) users() []any { return p.arrays[0] }

// args returns the arguments of [table.arrayRows].
func (p part) args() []any {
	return postgres.Map(p.arrays, func(array []any) any { return array })
}

func newPart[R record](name string, into table, records []R, check func(R) rowErrors) part {
	p := part{table: into, name: name, arrays: make([][]any, len(into.types))}
	var values []any
	for i, r := range records {
		for _, wrong := range check(r) {
			p.bad = append(p.bad, badRow(name, i, wrong.Path, wrong.Problem))
		}
		values = r.appendValues(values[:0])
		for c := range p.arrays {
			p.arrays[c] = append(p.arrays[c], values[c])
		}
	}
	return p
}

// badRow refuses a column of the row with an index. Its path is that in a JSON document with the lists of a [Batch].
func badRow(part string, index int, column, problem string) refusal.Field {
	return refusal.Field{Path: fmt.Sprintf("/%s/%d/%s", part, index, column), Problem: problem}
}

// of returns the part without the rows of users that are not known, which it adds to skipped.
func (p part) of(known map[any]owner, seen map[any]bool, skipped *Skipped) part {
	arrays := make([][]any, len(p.arrays))
	for i, user := range p.users() {
		if _, isKnown := known[user]; isKnown {
			for c := range arrays {
				arrays[c] = append(arrays[c], p.arrays[c][i])
			}
			continue
		}
		skipped.Rows++
		if !seen[user] {
			seen[user] = true
			if skipped.Users++; len(skipped.UserIDs) < refusal.MaxNamed {
				skipped.UserIDs = append(skipped.UserIDs, user.(pgtype.UUID).Bytes)
			}
		}
	}
	p.arrays = arrays
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
			p.bad = append(p.bad, badRow(p.name, i, p.key[1], "is written by the same batch"))
		}
	}
	return p
}

// check returns the error of all invalid rows, including malformed, those of dates that their users may not have and, unless they are skipped,
// those of unknown users.
func check(malformed []refusal.Field, parts []part, known map[any]owner, skip bool, dates *dates) error {
	bad := slices.Clone(malformed) // before the others: such a time is also out of bounds, and the first reason is enough
	for _, p := range parts {
		for i, user := range p.users() {
			owner, isKnown := known[user]
			if isKnown && p.dateField != "" {
				date := timezone.Day(p.arrays[p.dateColumn][i].(time.Time))
				if problem := dates.problem(owner, date, !p.observed); problem != "" && yearInBounds(date) {
					bad = append(bad, badRow(p.name, i, p.dateField, problem))
				}
			}
			if !isKnown && !skip {
				bad = append(bad, badRow(p.name, i, "user_id", refusal.ErrUserNotFound.Error()))
			}
		}
		bad = append(bad, p.bad...)
	}
	return refusal.Join(bad)
}

// lockUsers returns the users that exist. Its lock serializes batches for the same users, and keeps the users from being deleted until
// the batch is done. It is the weakest lock that does so: connecting and imports continue, and a sign-in waits. If users are sharded it
// locks none.
func lockUsers(ctx context.Context, tx pgx.Tx, users []any, sharded bool) (known map[any]owner, err error) {
	query := "select user_id, timezone, registered_on from users where user_id = any ($1) order by user_id"
	if !sharded {
		query += " for no key update"
	}
	rows, _ := tx.Query(ctx, query, users) // ForEachRow has its error
	known = map[any]owner{}
	var user uuid.UUID
	var of owner
	_, err = pgx.ForEachRow(rows, []any{&user, &of.timezone, &of.registeredOn}, func() error {
		known[pgUUID(user)] = of
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

	// SkipUnknown has the rows of unknown users left out. Without it they are bad.
	SkipUnknown bool

	observedAt time.Time       // of rows that do not say it
	malformed  []refusal.Field // what cannot be read, such as the clock time 25:00
}

// Rows counts the rows to write and to delete.
func (b Batch) Rows() int {
	return len(b.DailySteps) + len(b.CyclingActivities) + len(b.StepCorrections) + len(b.CyclingAdjustments) +
		len(b.DailyStepsRemovals) + len(b.Removals) + len(b.StepCorrectionRemovals) + len(b.CyclingAdjustmentRemovals)
}

// SetObservedAt says when the rows were observed that are added from now on and do not say it: an instant of RFC 3339. Nil: nobody knows.
// [Store.Put] reports an instant that is none.
func (b *Batch) SetObservedAt(text *string) {
	b.observedAt = b.observed("/observed_at", text)
}

func (b *Batch) observed(path string, text *string) time.Time {
	if text == nil {
		return b.observedAt
	}
	at, ok := parseInstant(*text)
	if !ok {
		b.malformed = append(b.malformed, refusal.Field{Path: path, Problem: noInstant})
	}
	return at
}

// AddSteps adds a total. observedAt is as in [Batch.SetObservedAt].
func (b *Batch) AddSteps(userID uuid.UUID, date time.Time, steps int, observedAt *string) {
	at := b.observed(fmt.Sprintf("/daily_steps/%d/observed_at", len(b.DailySteps)), observedAt)
	b.DailySteps = append(b.DailySteps, StepsRecord{UserID: userID, Date: date, Steps: steps, ObservedAt: at})
}

// AddRide adds a ride whose clock times are text that a JSON schema has checked for its form. A nil end is unknown, and observedAt is as in
// [Batch.SetObservedAt]. [Store.Put] reports times that do not exist.
func (b *Batch) AddRide(userID uuid.UUID, sourceID, start string, end *string, meters int, observedAt *string) {
	ride := RideRecord{UserID: userID, SourceID: sourceID, DistanceMeters: meters}
	ride.ObservedAt = b.observed(fmt.Sprintf("/cycling_activities/%d/observed_at", len(b.CyclingActivities)), observedAt)
	read := func(column, text string) time.Time {
		at, err := time.Parse(clockLayout, text)
		if err != nil {
			b.malformed = append(b.malformed, badRow("cycling_activities", len(b.CyclingActivities), column, "must be a clock time that exists"))
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

	Skipped *Skipped // nil: unknown users are not skipped
}

// Skipped are the rows of unknown users, which count nowhere else.
type Skipped struct {
	Rows    int64
	Users   int64
	UserIDs []uuid.UUID // the first hundred, as they come
}

// Removed counts rows of a part that deletes.
type Removed struct {
	Removed   int64
	Rows      int64
	Unchanged int64 // did not exist, or named twice
}
