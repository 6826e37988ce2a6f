package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
)

// Progress of an import.
type Progress struct {
	Rows    int64 // read from the file
	Bytes   int64 // read from the file
	Merging bool  // all rows are read and are now being written
}

// progressEvery is the number of rows between two reports of progress.
const progressEvery = 10_000

// ImportDailySteps takes a file with the columns user_id,date,steps: upserts by user and date, the last row of the
// file wins. Either the whole file is taken or nothing of it: then the error is a [RowError], for the row that comes
// first of those that the file is to blame for, or says what else failed. Memory does not grow with the file.
// progress may be nil.
func (s *Store) ImportDailySteps(ctx context.Context, file io.Reader, progress func(Progress)) (Result, error) {
	return importFile(ctx, s.pool, file, progress, stepsTable, stepsColumns, parseStepsRow)
}

// ImportCyclingActivities takes a file with the columns
// user_id,source_id,recorded_start_time,recorded_end_time,distance_meters: upserts by user and source id, also when
// the start has changed. All else is as with [Store.ImportDailySteps].
func (s *Store) ImportCyclingActivities(ctx context.Context, file io.Reader, progress func(Progress)) (Result, error) {
	return importFile(ctx, s.pool, file, progress, ridesTable, ridesColumns, parseRideRow)
}

// importFile copies the rows to a staging table, which only this transaction sees, and merges them from there: the
// rows that others read are locked only at the end, and in one order, so that two imports never wait for each other in
// a circle.
func importFile[R record](
	ctx context.Context, pool *postgres.Pool, file io.Reader, progress func(Progress),
	into table, header []string, parse func([]string) (R, *RowError),
) (Result, error) {
	csv, err := openCSV(file, header)
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.stored, err)
	}
	var read int64    // rows
	var bad *RowError // ends reading; a row before it may have a fault that only the database knows
	report := func(merging bool) {
		if progress != nil {
			progress(Progress{Rows: read, Bytes: csv.file.read, Merging: merging})
		}
	}
	var values []any
	next := func() ([]any, error) {
		row, line, err := csv.next()
		if errors.Is(err, io.EOF) || errors.As(err, &bad) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		record, wrong := parse(row)
		if wrong != nil {
			wrong.Line, bad = line, wrong
			return nil, nil
		}
		if read++; read%progressEvery == 0 {
			report(false)
		}
		values = record.appendValues(append(values[:0], line))
		return values, nil
	}
	var result Result
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		if err := stage(ctx, tx, into, pgx.CopyFromFunc(next)); err != nil {
			return err
		}
		around, err := look(ctx, tx)
		if err != nil {
			return err
		}
		usersLocked := false
		if !around.sharded {
			if usersLocked, err = lockStagedUsers(ctx, tx); err != nil {
				return err
			}
		}
		if bad != nil || !usersLocked {
			if err := firstBadRow(ctx, tx, bad, stagedRows); err != nil {
				return err
			}
		}
		report(true)
		result, err = mergeStaged(ctx, tx, into, read, usersLocked, around.told)
		if postgres.IsForeignKeyViolation(err, "") { // a user was deleted meanwhile
			return cmp.Or(firstBadRow(ctx, tx, nil, stagedRows), err)
		}
		result.settle(read)
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.stored, err)
	}
	return result, nil
}

// firstBadRow is the error of the row that comes first: the one that is bad by itself, or one before it whose user does
// not exist. rows holds those before it.
func firstBadRow(ctx context.Context, tx pgx.Tx, bad *RowError, rows string, args ...any) error {
	line, err := firstUnknownUser(ctx, tx, rows, args)
	switch {
	case err != nil:
		return err
	case line > 0:
		return &RowError{Line: line, Column: "user_id", Err: ErrUnknownUser}
	case bad != nil:
		return bad
	}
	return nil
}

// settle counts the rest: what changed nothing.
func (r *Result) settle(rows int64) {
	r.Rows = rows
	r.Unchanged = rows - r.Inserted - r.Updated
}
