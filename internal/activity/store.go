package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/postgres"
)

func (a *Activity) readDailySteps(ctx context.Context, userID uuid.UUID, dates Range) ([]activitydb.ReadDailyStepsRow, error) {
	return postgres.Read(ctx, a.pool, a.settings.Replicas, func(ctx context.Context, pool *postgres.Pool) ([]activitydb.ReadDailyStepsRow, error) {
		return activitydb.New(pool).ReadDailySteps(ctx, activitydb.ReadDailyStepsParams{
			UserID: userID, FirstDate: dates.From, LastDate: dates.To,
		})
	})
}

func (a *Activity) readCyclingDaily(ctx context.Context, userID uuid.UUID, dates Range) ([]activitydb.ReadCyclingDailyRow, error) {
	return postgres.Read(ctx, a.pool, a.settings.Replicas, func(ctx context.Context, pool *postgres.Pool) ([]activitydb.ReadCyclingDailyRow, error) {
		return activitydb.New(pool).ReadCyclingDaily(ctx, activitydb.ReadCyclingDailyParams{
			UserID: userID, Since: dates.From, Until: dates.until(),
		})
	})
}

type rideRow = activitydb.ReadCyclingActivitiesRow

// readCyclingActivities reads up to n rides after a position and before a time. The pages of a traversal may come from
// different replicas: a position says where to go on in any of them.
func (a *Activity) readCyclingActivities(
	ctx context.Context, userID uuid.UUID, after position, until time.Time, n int,
) ([]activitydb.ReadCyclingActivitiesRow, error) {
	return postgres.Read(ctx, a.pool, a.settings.Replicas, func(ctx context.Context, pool *postgres.Pool) ([]activitydb.ReadCyclingActivitiesRow, error) {
		return activitydb.New(pool).ReadCyclingActivities(ctx, activitydb.ReadCyclingActivitiesParams{
			UserID: userID, AfterTime: after.time, AfterSourceID: after.sourceID, Until: until,
			MaxRows: int32(n), //nolint:gosec // at most 501
		})
	})
}

func addStepCorrection(
	ctx context.Context, pool *postgres.Pool, userID uuid.UUID, date time.Time, delta int, note string,
) error {
	return activitydb.New(pool).AddStepCorrection(ctx, activitydb.AddStepCorrectionParams{
		UserID: userID, Date: date, CorrectionID: uuid.New(), Note: note,
		Delta: int32(delta), //nolint:gosec // checked
	})
}

func addCyclingAdjustment(
	ctx context.Context, pool *postgres.Pool, userID uuid.UUID, date time.Time, deltaMeters int, note string,
) error {
	return activitydb.New(pool).AddCyclingAdjustment(ctx, activitydb.AddCyclingAdjustmentParams{
		UserID: userID, Date: date, AdjustmentID: uuid.New(), Note: note,
		DeltaMeters: int32(deltaMeters), //nolint:gosec // checked
	})
}

// userClock is the time on the user's wall.
func userClock(ctx context.Context, pool *postgres.Pool, userID uuid.UUID) (time.Time, error) {
	now, err := activitydb.New(pool).UserClock(ctx, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, ErrUnknownUser
	}
	return now, err
}

// stage copies rows to a staging table of this transaction, which may then take as long as the file does.
func stage(ctx context.Context, tx pgx.Tx, into table, rows pgx.CopyFromSource) error {
	for _, statement := range []string{
		"set local statement_timeout = 0",
		"set local idle_in_transaction_session_timeout = 0",
		"set local work_mem = '64MB'", // of one sort, on one connection
		"set local jit = off",         // compiling takes longer than it saves
		into.createStaging(),
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{stagingTable}, into.columns, rows); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return nil
}

// pgUUID spares the driver finding out, for each row again, how a uuid.UUID is to be written.
func pgUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// firstUnknownUser is the first line whose user does not exist.
func firstUnknownUser(ctx context.Context, tx pgx.Tx, from rowSource) (line int, found bool, err error) {
	err = tx.QueryRow(ctx, fmt.Sprintf(`
select line from %s
where not exists (select from users where users.user_id = fresh.user_id)
order by line limit 1`, from.sql), from.args...).Scan(&line)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look for unknown users: %w", err)
	}
	return line, true, nil
}

// lockStagedUsers keeps the users of the staged rows from being deleted until the transaction ends, by the lock that a
// foreign key takes. all says that every one of them exists, and so is locked.
func lockStagedUsers(ctx context.Context, tx pgx.Tx) (all bool, err error) {
	err = tx.QueryRow(ctx, `
with wanted as (
	select distinct user_id from `+stagingTable+`
), locked as (
	select from users join wanted using (user_id) order by user_id for key share of users
)
select (select count(*) from locked) = (select count(*) from wanted)`).Scan(&all)
	if err != nil {
		return false, fmt.Errorf("lock the users: %w", err)
	}
	return all, nil
}

// mergeStaged is merge for a staged file, which has many rows and most of them new. usersLocked is what
// [lockStagedUsers] said.
func mergeStaged(ctx context.Context, tx pgx.Tx, into table, rows int64, usersLocked bool) (Result, error) {
	var inserted int64
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // a savepoint
		inserted, err = insertStaged(ctx, tx, into, usersLocked)
		return err
	})
	switch {
	case postgres.IsUniqueViolation(err, ""):
		inserted = 0
	case err != nil:
		return Result{}, fmt.Errorf("insert: %w", err)
	case inserted == rows:
		return Result{Inserted: inserted}, nil
	}
	result, err := merge(ctx, tx, into.staged())
	result.Inserted += inserted
	return result, err
}

// insertStaged takes the new rows. Where all users are locked already, the foreign key has nothing left to find out,
// and checking it again for each row would take longer than all else together: that is turned off for this one
// statement, where the role may do so (PostgreSQL: session_replication_role).
func insertStaged(ctx context.Context, tx pgx.Tx, into table, usersLocked bool) (rows int64, err error) {
	if usersLocked {
		if _, err := tx.Exec(ctx, `select set_config('session_replication_role', 'replica', true)
			where has_parameter_privilege('session_replication_role', 'SET')`); err != nil {
			return 0, err
		}
	}
	done, err := tx.Exec(ctx, fmt.Sprintf(into.insert, into.staged().sql))
	if err != nil {
		return 0, err
	}
	if usersLocked {
		_, err = tx.Exec(ctx, `select set_config('session_replication_role', 'origin', true)
			where has_parameter_privilege('session_replication_role', 'SET')`)
	}
	return done.RowsAffected(), err
}

// merge writes the rows to where they belong and counts what it inserted and updated.
func merge(ctx context.Context, tx pgx.Tx, from rowSource) (Result, error) {
	statement := fmt.Sprintf(from.merge, from.sql)
	for {
		var result Result
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			return tx.QueryRow(ctx, statement, from.args...).Scan(&result.Inserted, &result.Updated)
		})
		// Rides and adjustments have two unique keys, and a conflict is resolved by one of them. Of two merges that
		// insert the same row at the same moment one can meet the other in the other key first; the second time it
		// finds the row.
		if from.primaryKey != "" && postgres.IsUniqueViolation(err, from.primaryKey) {
			continue
		}
		if err != nil {
			return Result{}, fmt.Errorf("merge: %w", err)
		}
		return result, nil
	}
}

// allowTime lets the statements of a batch take the time of its request (decisions, section 5: 30 s).
func allowTime(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "set local statement_timeout = '28s'")
	return err
}

// lockUsers puts batches for the same users in order, and keeps the users where they are until the batch is done. It is
// the weakest lock that does so: connecting, signing in and imports go on. Those who do not exist are passed over.
func lockUsers(ctx context.Context, tx pgx.Tx, users []uuid.UUID) error {
	_, err := tx.Exec(ctx, `
select from users where user_id = any ($1) order by user_id for no key update`, users)
	if err != nil {
		return fmt.Errorf("lock the users: %w", err)
	}
	return nil
}

// lockRides locks the rides that a batch writes and those that it removes in the order in which a merge locks them, so
// that it does not wait in a circle with an import.
func lockRides(ctx context.Context, tx pgx.Tx, batch Batch) error {
	var users []uuid.UUID
	var sources []string
	for _, r := range batch.CyclingActivities {
		users, sources = append(users, r.UserID), append(sources, r.SourceID)
	}
	for _, r := range batch.Removals {
		users, sources = append(users, r.UserID), append(sources, r.SourceID)
	}
	_, err := tx.Exec(ctx, `
select from cycling_activities
where (user_id, source_id) in (select * from unnest($1::uuid[], $2::text[]))
order by user_id, source_id
for update`, users, sources)
	if err != nil {
		return fmt.Errorf("lock the rides: %w", err)
	}
	return nil
}

// removeRides deletes the rides of these names and counts those that there were.
func removeRides(ctx context.Context, tx pgx.Tx, from rowSource) (removed int64, err error) {
	tag, err := tx.Exec(ctx, fmt.Sprintf(`
delete from cycling_activities
where (user_id, source_id) in (select fresh.user_id, fresh.source_id from %s)`, from.sql), from.args...)
	if err != nil {
		return 0, fmt.Errorf("remove rides: %w", err)
	}
	return tag.RowsAffected(), nil
}
