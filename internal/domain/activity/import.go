package activity

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
)

// ImportOptions of an import. The zero value is valid.
type ImportOptions struct {
	Progress func(intake.Progress)

	// SkipUnknown receives the rows of unknown users, as they are in the file, and the other rows are imported. Without it, such rows
	// are bad. It is called before the other rows are written: the import may still fail.
	SkipUnknown func(row []string) error
}

// ImportDailySteps imports a file with the columns user_id,date,steps: upserts by user and date, the last row of the
// file wins. Either the whole file is imported or nothing. The error for bad rows is an [intake.BadRows], for a bad header an
// [intake.RowError]. Memory does not grow with the file.
func (s *Store) ImportDailySteps(ctx context.Context, file io.Reader, options ImportOptions) (Result, error) {
	return importFile(ctx, s.pool, file, options, stepsTable, DailyStepsColumns(), parseStepsRow)
}

// ImportCyclingActivities imports a file with the columns
// user_id,source_id,recorded_start_time,recorded_end_time,distance_meters: upserts by user and source id, even if the start has
// changed. Otherwise it works like [Store.ImportDailySteps].
func (s *Store) ImportCyclingActivities(ctx context.Context, file io.Reader, options ImportOptions) (Result, error) {
	return importFile(ctx, s.pool, file, options, ridesTable, CyclingActivitiesColumns(), parseRideRow)
}

// importFile copies the rows to a staging table that only this transaction sees, sorts them, and merges them from there part by part.
// So the rows that others read are locked only at the end, and always in one order, which prevents deadlocks between imports.
func importFile[R record](
	ctx context.Context, pool *postgres.Pool, file io.Reader, options ImportOptions,
	into table, header []string, parse func([]string) (R, rowErrors),
) (result Result, err error) {
	reader, err := intake.NewReader(file, header, options.Progress, func(values []any, row []string, line int) ([]any, []*intake.RowError) {
		record, bad := parse(row)
		for _, wrong := range bad {
			wrong.Line = line
		}
		if bad != nil {
			return nil, bad
		}
		return record.appendValues(append(values, line)), nil
	})
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.stored, err)
	}
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.Stage(ctx, tx, 0, into.columns(), append([]string{"bigint"}, into.types...), reader); err != nil {
			return err
		}
		state, err := readState(ctx, tx)
		if err != nil {
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
// transaction stores one of the new rows at the same time, it begins again, and merges all of them.
func mergeStaged(
	ctx context.Context, tx pgx.Tx, into table, usersLocked, notify bool, progress func(share float64), result *Result,
) error {
	if _, err := tx.Exec(ctx, into.sortStaged()); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	for overtaken := false; ; overtaken = true {
		var written Result
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			return postgres.InParts(ctx, tx, "sorted", func(part postgres.Part) error {
				defer progress(part.Share)
				return writePart(ctx, tx, into, part, usersLocked, notify, overtaken, &written)
			})
		})
		if !postgres.Is(err, postgres.UniqueViolation) {
			result.Inserted, result.Updated = written.Inserted, written.Updated
			return err
		}
	}
}

// writePart inserts the new rows of a part of a sorted file, which most of its rows are, unless the import was overtaken. It merges the
// others, and adds to result. usersLocked is the result of [lockStagedUsers].
func writePart(
	ctx context.Context, tx pgx.Tx, into table, part postgres.Part, usersLocked, notify, overtaken bool, result *Result,
) error {
	if !overtaken {
		inserted, err := insertPart(ctx, tx, into, part, usersLocked, notify)
		if err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if result.Inserted += inserted; inserted == part.Rows {
			return nil
		}
	}
	var inserted, updated int64
	if err := tx.QueryRow(ctx, into.merge(partRows, partUsers, false, notify), part.Args()...).Scan(&inserted, &updated); err != nil {
		return fmt.Errorf("merge into %s: %w", into.stored, err)
	}
	result.Inserted += inserted
	result.Updated += updated
	return nil
}

// insertPart inserts the new rows. If all users are locked, the foreign key is known to hold, and checking it for each row would take
// longer than everything else together: the check is turned off for this one statement if the role may do so (PostgreSQL:
// session_replication_role).
func insertPart(
	ctx context.Context, tx pgx.Tx, into table, part postgres.Part, usersLocked, notify bool,
) (inserted int64, err error) {
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
	if err := tx.QueryRow(ctx, into.insertNew(notify), part.Args()...).Scan(&inserted); err != nil {
		return 0, err
	}
	return inserted, setRole("origin")
}
