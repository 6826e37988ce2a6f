package activity

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/intake"
	"connect-svc/internal/postgres"
)

// ImportOptions say how an import is done. The zero value is good.
type ImportOptions struct {
	Progress func(intake.Progress)

	// SkipUnknown gets the rows of users who do not exist, as the file has them, and the others are taken. Without it, such a
	// row is a bad one. It is called before the others are taken: they may still not be, and then the import fails.
	SkipUnknown func(row []string) error
}

// ImportDailySteps takes a file with the columns user_id,date,steps: upserts by user and date, the last row of the
// file wins. Either the whole file is taken or nothing of it: then the error is an [intake.BadRows] or, for the header, an
// [intake.RowError], or says what else failed. Memory does not grow with the file.
func (s *Store) ImportDailySteps(ctx context.Context, file io.Reader, options ImportOptions) (Result, error) {
	return importFile(ctx, s.pool, file, options, stepsTable, DailyStepsColumns(), parseStepsRow)
}

// ImportCyclingActivities takes a file with the columns
// user_id,source_id,recorded_start_time,recorded_end_time,distance_meters: upserts by user and source id, also when
// the start has changed. All else is as with [Store.ImportDailySteps].
func (s *Store) ImportCyclingActivities(ctx context.Context, file io.Reader, options ImportOptions) (Result, error) {
	return importFile(ctx, s.pool, file, options, ridesTable, CyclingActivitiesColumns(), parseRideRow)
}

// importFile copies the rows to a staging table, which only this transaction sees, puts them in order, and merges them from there
// part by part: the rows that others read are locked only at the end, and in one order, so that two imports never wait for
// each other in a circle.
func importFile[R record](
	ctx context.Context, pool *postgres.Pool, file io.Reader, options ImportOptions,
	into table, header []string, parse func([]string) (R, faults),
) (result Result, err error) {
	reader, err := intake.NewReader(file, header, options.Progress, func(values []any, row []string, line int) ([]any, []*intake.RowError) {
		record, bad := parse(row)
		for _, fault := range bad {
			fault.Line = line
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
		if err := postgres.Stage(ctx, tx, 0, into.columns(), into.stagedTypes(), reader); err != nil {
			return err
		}
		state, err := readDatabaseState(ctx, tx)
		if err != nil {
			return err
		}
		usersLocked, err := settleUsers(ctx, tx, into, reader, state, options.SkipUnknown, &result)
		if err != nil {
			return err
		}
		reader.Storing(0)
		err = mergeStaged(ctx, tx, into, usersLocked, state.told, reader.Storing, &result)
		if postgres.IsForeignKeyViolation(err, "") { // a user was deleted meanwhile
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

// settleUsers locks the users of the staged rows where it can, and says whether all are locked. It fails if a row is bad. Rows of
// unknown users are bad, or are passed to skip.
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
		// One who was deleted since is found by the next lock.
		skipped, err := skipUnknownUsers(ctx, tx, into, skip)
		if err != nil {
			return false, err
		}
		if result.Skipped += skipped; state.sharded {
			return false, nil
		}
	}
}

// mergeStaged writes the staged rows, and adds to result. In a savepoint, so that after an error the staged rows are still there.
func mergeStaged(
	ctx context.Context, tx pgx.Tx, into table, usersLocked, told bool, progress func(share float64), result *Result,
) error {
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, into.sortStaged()); err != nil {
			return fmt.Errorf("sort: %w", err)
		}
		return postgres.InParts(ctx, tx, "sorted", func(part postgres.Part) error {
			merged, err := mergePart(ctx, tx, into, part, usersLocked, told)
			if err != nil {
				return err
			}
			result.Inserted += merged.Inserted
			result.Updated += merged.Updated
			progress(part.Share)
			return nil
		})
	})
}
