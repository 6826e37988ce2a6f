package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/actor"
	"connect-svc/internal/credential"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/intake"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
)

// ErrUnknownUser is the error of a write for a user who does not exist.
var ErrUnknownUser = errors.New("no such user")

// Settings of the reads.
type Settings struct {
	CursorLifetime time.Duration // of a traversal from its first page on: 1 s to 15 min

	// Replicas may answer the three reads, up to five seconds late. Who may read, and what, is never asked of them. Nil: none.
	Replicas *postgres.Replicas
}

// Store is the recorded activity in a database. It is safe for concurrent use.
type Store struct {
	pool     *postgres.Pool
	batches  *fairqueue.Queue
	keys     *credential.Keyring
	settings Settings
}

// A batch holds a connection until it is written. Few at a time leave the others to those who read.
const (
	batchesAtOnce  = 4
	batchesWaiting = 64
)

// New is the activity in the database of pool. Cursors and the ids of rides are made with keys.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Store {
	return &Store{pool, fairqueue.New(batchesAtOnce, batchesWaiting), keys, settings}
}

// DailySteps returns the dates of a range that have a record, oldest first: at most 31.
func (s *Store) DailySteps(ctx context.Context, userID uuid.UUID, dates Range) ([]Steps, error) {
	rows, err := read(ctx, s, (*activitydb.Queries).ReadDailySteps, activitydb.ReadDailyStepsParams{
		UserID: userID, FirstDate: dates.From, LastDate: dates.To,
	})
	return postgres.Map(rows, func(row activitydb.ReadDailyStepsRow) Steps { return Steps(row) }), err
}

// CyclingDaily returns the dates of a range on which rides started, oldest first: at most 31.
func (s *Store) CyclingDaily(ctx context.Context, userID uuid.UUID, dates Range) ([]CyclingDay, error) {
	rows, err := read(ctx, s, (*activitydb.Queries).ReadCyclingDaily, activitydb.ReadCyclingDailyParams{
		UserID: userID, Since: dates.From, Until: dates.until(),
	})
	return postgres.Map(rows, func(row activitydb.ReadCyclingDailyRow) CyclingDay { return CyclingDay(row) }), err
}

type rideRow = activitydb.ReadCyclingActivitiesRow

// readRides reads up to n rides after a position and before a time. The pages of a traversal may come from different
// replicas: a position means the same in each of them.
func (s *Store) readRides(ctx context.Context, userID uuid.UUID, after position, until time.Time, n int) ([]rideRow, error) {
	return read(ctx, s, (*activitydb.Queries).ReadCyclingActivities, activitydb.ReadCyclingActivitiesParams{
		UserID: userID, AfterTime: after.time, AfterSourceID: after.sourceID, Until: until,
		MaxRows: int32(n), //nolint:gosec // at most 501
	})
}

// read runs a query on a replica that is recent enough, or else on the primary.
func read[Params, Row any](
	ctx context.Context, s *Store, query func(*activitydb.Queries, context.Context, Params) ([]Row, error), params Params,
) ([]Row, error) {
	rows, err := postgres.Read(ctx, s.pool, s.settings.Replicas, func(ctx context.Context, pool *postgres.Pool) ([]Row, error) {
		return query(activitydb.New(pool), ctx, params)
	})
	return rows, postgres.Wrap("activity: read", err)
}

// userClock is the time on the user's wall.
func (s *Store) userClock(ctx context.Context, userID uuid.UUID) (time.Time, error) {
	now, err := activitydb.New(s.pool).UserClock(ctx, userID)
	return now, postgres.WrapNoRows("activity: user's clock", err, ErrUnknownUser)
}

// unknownUsers is the error of all bad rows, the staged ones of users who do not exist among them; nil if there are none.
func unknownUsers(ctx context.Context, tx pgx.Tx, reader *intake.Reader) error {
	rows, _ := tx.Query(ctx, `
with named as materialized (
	select line, user_id from staged
), known as materialized (
	select users.user_id from users join (select distinct user_id from named) wanted on wanted.user_id = users.user_id
)
select named.line, count(*) over () from named left join known on known.user_id = named.user_id
where known.user_id is null order by named.line limit $1`, intake.MaxNamed) // ForEachRow has its error
	var line int
	var count int64
	var unknown []*intake.RowError
	_, err := pgx.ForEachRow(rows, []any{&line, &count}, func() error {
		unknown = append(unknown, &intake.RowError{Line: line, Column: "user_id", Err: ErrUnknownUser})
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for unknown users: %w", err)
	}
	reader.Bad().Found(count, unknown...)
	return reader.Bad().Err(reader.Rows())
}

// skipUnknownUsers takes the rows of users who do not exist out of the staged ones, and passes them on as a file has them.
func skipUnknownUsers(ctx context.Context, tx pgx.Tx, from table, skip func(row []string) error) (skipped int64, err error) {
	rows, _ := tx.Query(ctx, from.skipUnknown()) // ForEachRow has its error
	row := make([]string, len(from.texts))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	if _, err := pgx.ForEachRow(rows, into, func() error {
		skipped++
		return skip(row)
	}); err != nil {
		return 0, fmt.Errorf("skip unknown users: %w", err)
	}
	return skipped, nil
}

// lockStagedUsers keeps the users of the staged rows from being deleted until the transaction ends, by the lock that a
// foreign key takes. all says that every one of them exists, and so is locked. Where users are sharded it locks none.
func lockStagedUsers(ctx context.Context, tx pgx.Tx) (all bool, err error) {
	err = tx.QueryRow(ctx, `
with wanted as (
	select distinct user_id from staged
), locked as (
	select from users join wanted using (user_id) order by user_id for key share of users
)
select (select count(*) from locked) = (select count(*) from wanted)`).Scan(&all)
	return all, postgres.Wrap("lock the users", err)
}

// databaseState is what a write needs to know of the database.
type databaseState struct {
	told bool // some client may want to be told of changes
	// sharded says that users are spread over several databases (Citus). One statement cannot lock rows in several of them
	// there. What the locks prevent is found out instead: the foreign key refuses a user who is deleted meanwhile, and of two
	// writes that wait for each other in a circle one is made again.
	sharded bool
}

func readDatabaseState(ctx context.Context, tx pgx.Tx) (state databaseState, err error) {
	err = tx.QueryRow(ctx, `select exists (select from webhook_endpoints where stopped_at is null), `+postgres.IsSharded).Scan(&state.told, &state.sharded)
	return state, err
}

// mergePart is merge for a part of a sorted file, which has many rows and most of them new. usersLocked is what
// [lockStagedUsers] said.
func mergePart(ctx context.Context, tx pgx.Tx, into table, part postgres.Part, usersLocked, told bool) (Result, error) {
	var inserted, rows int64
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // a savepoint
		inserted, rows, err = insertPart(ctx, tx, into, part, usersLocked, told)
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
	result, err := merge(ctx, tx, into, partRows, partUsers, told, part.Args()...)
	result.Inserted += inserted
	return result, err
}

// insertPart inserts the new rows. Where all users are locked already, the foreign key has nothing left to find out,
// and checking it again for each row would take longer than all else together: that is turned off for this one
// statement, where the role may do so (PostgreSQL: session_replication_role).
func insertPart(
	ctx context.Context, tx pgx.Tx, into table, part postgres.Part, usersLocked, told bool,
) (inserted, rows int64, err error) {
	setRole := func(role string) error {
		if !usersLocked {
			return nil
		}
		_, err := tx.Exec(ctx, `select set_config('session_replication_role', $1, true)
			where has_parameter_privilege('session_replication_role', 'SET')`, role)
		return err
	}
	if err := setRole("replica"); err != nil {
		return 0, 0, err
	}
	if err := tx.QueryRow(ctx, into.insertNew(told), part.Args()...).Scan(&inserted, &rows); err != nil {
		return 0, 0, err
	}
	return inserted, rows, setRole("origin")
}

// merge writes rows to their table and counts what it inserted and updated. stored is a condition as [table.merge] takes it.
func merge(ctx context.Context, tx pgx.Tx, into table, rows, stored string, told bool, args ...any) (result Result, err error) {
	for {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			return tx.QueryRow(ctx, into.merge(rows, stored, told), args...).Scan(&result.Inserted, &result.Updated)
		})
		// Rides and adjustments have two unique keys, and a conflict is resolved by one of them. Of two merges that
		// insert the same row at the same moment one can meet the other in the other key first; the second time it
		// finds the row.
		if into.primaryKey != "" && postgres.IsUniqueViolation(err, into.primaryKey) {
			continue
		}
		if err != nil {
			return Result{}, fmt.Errorf("merge into %s: %w", into.stored, err)
		}
		return result, nil
	}
}

// allowTime lets the statements of a batch take the time of its request (decisions, section 5: 30 s).
func allowTime(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "set local statement_timeout = '28s'")
	return err
}

// lockUsers returns which users exist. It puts batches for the same users in order, and keeps the users from being deleted until
// the batch is done. It is the weakest lock that does so: connecting, signing in and imports go on. Where users are sharded it
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

// remove deletes the rows that a part names and counts those that there were.
func remove(ctx context.Context, tx pgx.Tx, named part, told bool) (removed int64, err error) {
	err = tx.QueryRow(ctx, named.remove(told), named.args()...).Scan(&removed)
	return removed, postgres.Wrap("remove from "+named.stored, err)
}

// lockRows locks the rows that a batch removes and those that it writes in the order in which a merge locks them, so that the
// batch does not wait in a circle with an import.
func lockRows(ctx context.Context, tx pgx.Tx, removals, written part) error {
	both := removals
	both.arrays = make([][]any, len(removals.key))
	for i := range both.arrays {
		both.arrays[i] = slices.Concat(removals.arrays[i], written.arrays[i])
	}
	_, err := tx.Exec(ctx, both.lock(), both.args()...)
	return postgres.Wrap("lock rows of "+both.stored, err)
}

// noteAdjustment writes who did what with an adjustment to the audit log.
func noteAdjustment(ctx context.Context, tx pgx.Tx, action string, dataset Adjusted, userID, id uuid.UUID) error {
	return activitydb.New(tx).NoteAdjustment(ctx, activitydb.NoteAdjustmentParams{
		UserID: userID, Actor: actor.Of(ctx), Action: action, Dataset: string(dataset), AdjustmentID: id,
	})
}

func getAdjustment(ctx context.Context, from activitydb.DBTX, dataset Adjusted, userID, id uuid.UUID) (Adjustment, error) {
	if dataset == AdjustedCycling {
		row, err := activitydb.New(from).GetCyclingAdjustment(ctx, activitydb.GetCyclingAdjustmentParams{UserID: userID, AdjustmentID: id})
		return Adjustment{AdjustmentRecord{userID, id, row.Date, int(row.DeltaMeters), row.Note}, dataset, row.CreatedAt}, err
	}
	row, err := activitydb.New(from).GetStepCorrection(ctx, activitydb.GetStepCorrectionParams{UserID: userID, CorrectionID: id})
	return Adjustment{AdjustmentRecord{userID, id, row.Date, int(row.Delta), row.Note}, dataset, row.CreatedAt}, err
}

// GetAdjustment finds an adjustment by its id. Error: ErrNoAdjustment.
func (s *Store) GetAdjustment(ctx context.Context, dataset Adjusted, userID, id uuid.UUID) (Adjustment, error) {
	found, err := getAdjustment(ctx, s.pool, dataset, userID, id)
	return found, postgres.WrapNoRows("activity: adjustment", err, ErrNoAdjustment)
}

// LatestAdjustments are what was corrected in datasets of a user, newest first: at most limit of them, those before a moment.
func (s *Store) LatestAdjustments(
	ctx context.Context, userID uuid.UUID, datasets []Adjusted, before page.Key, limit int,
) ([]Adjustment, error) {
	params := activitydb.ListLatestAdjustmentsParams{
		UserID: userID, MaxRows: int32(limit),
		Steps: slices.Contains(datasets, AdjustedSteps), Cycling: slices.Contains(datasets, AdjustedCycling),
	}
	params.StepsAt, params.StepsID = adjustmentsBefore(before, AdjustedSteps)
	params.CyclingAt, params.CyclingID = adjustmentsBefore(before, AdjustedCycling)
	rows, err := activitydb.New(s.pool).ListLatestAdjustments(ctx, params)
	return postgres.Map(rows, func(row activitydb.ListLatestAdjustmentsRow) Adjustment {
		return adjustmentOf(userID, activitydb.ListAdjustmentsRow(row))
	}), postgres.Wrap("activity: latest adjustments", err)
}

// Day is what a date of a user comes to, for support. Error: ErrUnknownUser.
func (s *Store) Day(ctx context.Context, dataset Adjusted, userID uuid.UUID, date time.Time) (Day, error) {
	var day Day
	var err error
	if dataset == AdjustedCycling {
		var row activitydb.GetCyclingOfDayRow
		row, err = activitydb.New(s.pool).GetCyclingOfDay(ctx, activitydb.GetCyclingOfDayParams{
			UserID: userID, Day: date, Since: date, Until: date.AddDate(0, 0, 1),
		})
		day = Day(row)
	} else {
		var row activitydb.GetStepsOfDayRow
		row, err = activitydb.New(s.pool).GetStepsOfDay(ctx, activitydb.GetStepsOfDayParams{UserID: userID, Day: date})
		day = Day(row)
	}
	return day, postgres.WrapNoRows("activity: day", err, ErrUnknownUser)
}

// Count is how much is stored of a user, each counted as far as most. Error: ErrUnknownUser.
func (s *Store) Count(ctx context.Context, userID uuid.UUID, most int) (Amount, error) {
	row, err := activitydb.New(s.pool).CountActivity(ctx, activitydb.CountActivityParams{UserID: userID, Most: int32(most)})
	found := Amount{int(row.Days), int(row.Rides), int(min(row.Adjustments, int64(most)))}
	return found, postgres.WrapNoRows("activity: count", err, ErrUnknownUser)
}

// Adjustments are what was corrected for a user, by date: at most limit of them, those after a position. Whoever does not exist has
// none.
func (s *Store) Adjustments(ctx context.Context, userID uuid.UUID, after page.Key, limit int) ([]Adjustment, error) {
	params := activitydb.ListAdjustmentsParams{UserID: userID, MaxRows: int32(limit)}
	params.StepsDate, params.StepsID = adjustmentsAfter(after, AdjustedSteps)
	params.CyclingDate, params.CyclingID = adjustmentsAfter(after, AdjustedCycling)
	rows, err := activitydb.New(s.pool).ListAdjustments(ctx, params)
	return postgres.Map(rows, func(row activitydb.ListAdjustmentsRow) Adjustment {
		return adjustmentOf(userID, row)
	}), postgres.Wrap("activity: adjustments", err)
}

func adjustmentOf(userID uuid.UUID, row activitydb.ListAdjustmentsRow) Adjustment {
	return Adjustment{AdjustmentRecord{userID, row.ID, row.Date, int(row.Delta), row.Note}, adjusted[row.Dataset], row.CreatedAt}
}
