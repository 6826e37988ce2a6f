package activity

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ImportOptions of an import. The zero value is valid.
type ImportOptions struct {
	Progress func(intake.Progress)
	History  // which dates are taken

	// SkipUnknown receives the header, then the rows of unknown users, as they are in the file, and the other rows are imported. Without it,
	// such rows are bad. It is called before the other rows are written: the import may still fail.
	SkipUnknown func(row []string) error
}

var (
	stepsColumns = []string{"user_id", "date", "steps"}
	ridesColumns = []string{"user_id", "source_id", "recorded_start_time", "recorded_end_time", "distance_meters"}
)

// ImportDailySteps imports a file with the columns user_id,date,steps and, if the file has it, observed_at: upserts by user and date, as
// [Store.Put] does. Either the whole file is imported or nothing. The error for bad rows is a [refusal.Fields], for a bad header a
// [refusal.Field]. Memory does not grow with the file.
func (s *Store) ImportDailySteps(ctx context.Context, file io.Reader, options ImportOptions) (Result, error) {
	return importFile(ctx, s.pool, file, options, stepsTable, stepsColumns, parseStepsRow)
}

// ImportCyclingActivities imports a file with the columns
// user_id,source_id,recorded_start_time,recorded_end_time,distance_meters and, if the file has it, observed_at: upserts by user and source id, even if the start has
// changed. Otherwise it works like [Store.ImportDailySteps].
func (s *Store) ImportCyclingActivities(ctx context.Context, file io.Reader, options ImportOptions) (Result, error) {
	return importFile(ctx, s.pool, file, options, ridesTable, ridesColumns, parseRideRow)
}

// importFile copies the rows to a staging table that only this transaction sees, sorts them, and merges them from there part by part.
// So the rows that others read are locked only at the end. After a deadlock the import begins again from there.
func importFile[R record](
	ctx context.Context, pool *postgres.Pool, file io.Reader, options ImportOptions,
	into table, header []string, parse func(row []string, now time.Time) (R, rowErrors),
) (result Result, err error) {
	var state databaseState
	reader, err := intake.NewReader(file, header, "observed_at", options.Progress, func(values []any, row []string, line int) ([]any, []refusal.Field) {
		record, bad := parse(row, state.now)
		if bad != nil {
			return nil, bad
		}
		return record.appendValues(append(values, line)), nil
	})
	if err == nil && options.SkipUnknown != nil {
		err = options.SkipUnknown(reader.Header())
	}
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.stored, err)
	}
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		if state, err = readState(ctx, tx); err != nil {
			return err
		}
		if err := postgres.Stage(ctx, tx, 0, into.columns(), append([]string{"bigint"}, into.types...), reader); err != nil {
			return err
		}
		if err := refuseDates(ctx, tx, into, reader, options.dates(state.now)); err != nil {
			return err
		}
		usersLocked, err := settleUsers(ctx, tx, into, reader, state, options.SkipUnknown, &result)
		if err != nil {
			return err
		}
		reader.Storing(0)
		err = mergeStaged(ctx, tx, into, usersLocked, state.notify, reader.Storing, &result)
		if postgres.Is(err, postgres.ForeignKeyViolation) { // a user was deleted since
			return cmp.Or(unknownUsers(ctx, tx, reader), err)
		}
		result.Settle(reader.Rows())
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.stored, err)
	}
	return result, nil
}

// mergeStaged writes the staged rows and adds to result. It works in a savepoint, which keeps the staged rows after an error. If another
// transaction stores one of the new rows at the same time, or each waits for the other, it begins again, and merges all of them. notify records
// the changes for webhooks at the end: for a client who connects meanwhile and reads without them, and as of when they can be read.
func mergeStaged(ctx context.Context, tx pgx.Tx, into table, usersLocked, notify bool, progress func(share float64), result *Result) error {
	if _, err := tx.Exec(ctx, into.fill(`
create temporary table sorted on commit drop as
select distinct on (KEY) line, COLUMNS from staged order by KEY, `+into.newest())); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	record := ""
	if notify {
		record = noteChanges
		if _, err := tx.Exec(ctx, "create temporary table changed_days (user_id uuid, date date) on commit drop"); err != nil {
			return fmt.Errorf("note the changes: %w", err)
		}
	}
	for overtaken := false; ; overtaken = true {
		var written Result
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			err := postgres.InParts(ctx, tx, "sorted", func(part postgres.Part) error {
				defer progress(part.Share)
				return writePart(ctx, tx, into, part, usersLocked, overtaken, record, &written)
			})
			if err == nil && notify {
				_, err = insert(ctx, tx, usersLocked, "with changes as (select * from changed_days)"+into.recordChanges(false, true)+" select count(*) from changes")
			}
			return err
		})
		if !postgres.Is(err, postgres.UniqueViolation) && !postgres.Is(err, postgres.DeadlockDetected) {
			result.Inserted, result.Updated, result.Outdated = written.Inserted, written.Updated, written.Outdated
			return err
		}
	}
}

// writePart inserts the new rows of a part of a sorted file, which most of its rows are, unless the import was overtaken. It merges the
// others, and adds to result. usersLocked is the result of [lockStagedUsers].
func writePart(ctx context.Context, tx pgx.Tx, into table, part postgres.Part, usersLocked, overtaken bool, record string, result *Result) error {
	if !overtaken {
		inserted, err := insert(ctx, tx, usersLocked, into.insertNew(record), part.Args()...)
		if err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if result.Inserted += inserted; inserted == part.Rows {
			return nil
		}
	}
	var inserted, updated, outdated int64
	if err := tx.QueryRow(ctx, into.merge(partRows, partUsers, false, record), part.Args()...).Scan(&inserted, &updated, &outdated); err != nil {
		return fmt.Errorf("merge into %s: %w", into.stored, err)
	}
	result.Inserted += inserted
	result.Updated += updated
	result.Outdated += outdated
	return nil
}

// insert runs a statement that inserts rows of users, and returns what it counts. If all users are locked, its foreign keys are known to hold,
// and checking them for each row would take longer than everything else together: the check is turned off for this one statement if the role may do
// so (PostgreSQL: session_replication_role).
func insert(ctx context.Context, tx pgx.Tx, usersLocked bool, statement string, args ...any) (inserted int64, err error) {
	setRole := func(role string) error {
		if !usersLocked {
			return nil
		}
		_, err := tx.Exec(ctx, `select set_config('session_replication_role', $1, true)
			where has_parameter_privilege('session_replication_role', 'SET')`, role)
		return err
	}
	if err := setRole("replica"); err != nil {
		return 0, err
	}
	if err := tx.QueryRow(ctx, statement, args...).Scan(&inserted); err != nil {
		return 0, err
	}
	return inserted, setRole("origin")
}

// settleUsers locks the users of the staged rows if it can, and returns whether all are locked. It fails if a row is bad. Rows of
// unknown users are bad unless there is a skip, which receives them.
func settleUsers(
	ctx context.Context, tx pgx.Tx, into table, reader *intake.Reader, state databaseState, skip func([]string) error, result *Result,
) (locked bool, err error) {
	if bad := reader.Bad(); bad.Count > 0 && skip != nil {
		return false, bad.Err(reader.Rows())
	}
	for {
		if !state.sharded {
			if locked, err = lockStagedUsers(ctx, tx); err != nil {
				return false, err
			}
		}
		if skip == nil {
			if reader.Bad().Count > 0 || !locked {
				err = unknownUsers(ctx, tx, reader)
			}
			return locked, err
		}
		if locked {
			return true, nil
		}
		// The next lock finds users who were deleted since.
		skipped, err := skipUnknownUsers(ctx, tx, into, len(reader.Header()), skip)
		if err != nil {
			return false, err
		}
		if result.Skipped += skipped; state.sharded {
			return false, nil
		}
	}
}

// lockStagedUsers keeps the users of the staged rows from being deleted until the transaction ends, with the lock that a
// foreign key takes. all reports that every user exists and is locked. Do not call it if users are sharded.
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

// unknownUsers returns the error of all bad rows, including the staged rows of unknown users; nil if there are none.
func unknownUsers(ctx context.Context, tx pgx.Tx, reader *intake.Reader) error {
	rows, _ := tx.Query(ctx, `
with named as materialized (
	select line, user_id from staged
), known as materialized (
	select users.user_id from users join (select distinct user_id from named) wanted on wanted.user_id = users.user_id
)
select named.line, count(*) over () from named left join known on known.user_id = named.user_id
where known.user_id is null order by named.line limit $1`, refusal.MaxNamed) // ForEachRow has its error
	var line int
	var count int64
	var unknown []refusal.Field
	_, err := pgx.ForEachRow(rows, []any{&line, &count}, func() error {
		unknown = append(unknown, refusal.Field{Row: line, Path: "user_id", Problem: refusal.ErrUserNotFound.Error()})
		return nil
	})
	if err != nil {
		return fmt.Errorf("find unknown users: %w", err)
	}
	reader.Bad().AddRows(count, unknown)
	return reader.Bad().Err(reader.Rows())
}

// skipUnknownUsers removes the staged rows of unknown users and passes them to skip, as they are in the file, with so many columns.
func skipUnknownUsers(ctx context.Context, tx pgx.Tx, staged table, columns int, skip func(row []string) error) (skipped int64, err error) {
	rows, _ := tx.Query(ctx, `
with known as materialized (
	select users.user_id from users join (select distinct user_id from staged) wanted on wanted.user_id = users.user_id
), skipped as (
	delete from staged where not exists (select from known where known.user_id = staged.user_id) returning *
)
select `+strings.Join(staged.texts, ", ")+` from skipped order by line`) // ForEachRow has its error
	row := make([]string, len(staged.texts))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	if _, err := pgx.ForEachRow(rows, into, func() error {
		skipped++
		return skip(row[:columns])
	}); err != nil {
		return 0, fmt.Errorf("skip unknown users: %w", err)
	}
	return skipped, nil
}

// A field that cannot be parsed becomes a value that the check of the record refuses.

func parseStepsRow(row []string, now time.Time) (StepsRecord, rowErrors) {
	user, bad := parseUser(row[0])
	date, _ := parseDate(row[1]) // the year 1
	record := StepsRecord{UserID: user, Date: date, Steps: parseCount(row[2])}
	record.ObservedAt = bad.observed(row[3], now)
	return record, append(bad, record.check()...)
}

func parseRideRow(row []string, now time.Time) (RideRecord, rowErrors) {
	user, bad := parseUser(row[0])
	start, end := parseClock(row[2]), parseClock(row[3]) // an end of the year 1 is unknown (decisions, section 1)
	record := RideRecord{UserID: user, SourceID: row[1], Start: start, End: end, DistanceMeters: parseCount(row[4])}
	record.ObservedAt = bad.observed(row[5], now)
	return record, append(bad, record.check()...)
}

func parseUser(text string) (id uuid.UUID, bad rowErrors) {
	id, err := intake.ParseUUID(text)
	bad.unless(err == nil, "user_id", intake.ErrUUID.Error())
	return id, bad
}

// observed reads an instant, or nothing.
func (e *rowErrors) observed(text string, now time.Time) time.Time {
	at, ok := parseInstant(text)
	e.unless(ok || text == "", "observed_at", noInstant)
	return earlier(at, now)
}

// parseInstant reads an instant of RFC 3339 in the years of records. Many programs write the year 1 for an instant that they lack.
func parseInstant(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && yearInBounds(at) && instantShape.MatchString(text)
}

// instantShape excludes texts that [time.Parse] accepts beyond the format.
var instantShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$`)

// earlier makes an observation that is later than now be of now, so that no clock that is ahead keeps later rows out.
func earlier(observed, now time.Time) time.Time {
	if now.Before(observed) {
		return now
	}
	return observed
}

// parseCount returns -1 for a malformed count.
func parseCount(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n) //nolint:gosec // 31 bits
}

// clockLayout also accepts up to nine fractional digits.
const clockLayout = "2006-01-02T15:04:05"

// clockShape excludes texts that [time.Parse] accepts beyond the format: hours of one digit, a comma, more fractional digits.
var clockShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$`)

// parseClock returns a time in the year 1 for a malformed time and for one that does not exist.
func parseClock(text string) (at time.Time) {
	if clockShape.MatchString(text) {
		at, _ = time.Parse(clockLayout, text)
	}
	return at
}
