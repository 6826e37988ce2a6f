package activity

import (
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

// progressEvery so many rows the caller hears of it.
const progressEvery = 10_000

// ImportDailySteps takes a file with the columns user_id,date,steps: upserts by user and date, the last row of the
// file wins. Either the whole file is taken or nothing of it: then the error is a [RowError], for the row that comes
// first of those that the file is to blame for, or says what else failed. Memory does not grow with the file.
// progress may be nil.
func (a *Activity) ImportDailySteps(ctx context.Context, file io.Reader, progress func(Progress)) (Result, error) {
	return a.importFile(ctx, file, progress, stepsTable, func(row []string, line int, values []any) *columnError {
		record, err := parseStepsRow(row)
		values[0], values[1], values[2], values[3] = line, pgUUID(record.UserID), record.Date, record.Steps
		return err
	})
}

// ImportCyclingActivities takes a file with the columns
// user_id,source_id,recorded_start_time,recorded_end_time,distance_meters: upserts by user and source id, also when
// the start has changed. All else is as with [Activity.ImportDailySteps].
func (a *Activity) ImportCyclingActivities(
	ctx context.Context, file io.Reader, progress func(Progress),
) (Result, error) {
	return a.importFile(ctx, file, progress, ridesTable, func(row []string, line int, values []any) *columnError {
		record, err := parseRideRow(row)
		values[0], values[1], values[2] = line, pgUUID(record.UserID), record.SourceID
		values[3], values[4], values[5] = record.Start, record.end(), record.DistanceMeters
		return err
	})
}

// parseRow turns a row of a file into the values of its staging table.
type parseRow func(row []string, line int, values []any) *columnError

// importFile copies the rows to a staging table, which only this transaction sees, and merges them from there: the
// rows that others read are locked only at the end, and in one order, so that two imports never wait for each other in
// a circle.
func (a *Activity) importFile(
	ctx context.Context, file io.Reader, progress func(Progress), into table, parse parseRow,
) (Result, error) {
	rows, err := openCSV(file, into.fileColumns)
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.name, err)
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	source := &fileSource{file: rows, parse: parse, progress: progress, values: make([]any, len(into.columns))}
	result := Result{}
	err = postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		if err := stage(ctx, tx, into, source); err != nil {
			return err
		}
		usersLocked, err := lockStagedUsers(ctx, tx)
		if err != nil {
			return err
		}
		if source.bad != nil || !usersLocked {
			if err := firstBadRow(ctx, tx, into.staged(), source.bad); err != nil {
				return err
			}
		}
		source.report(true)
		result, err = mergeStaged(ctx, tx, into, source.rows, usersLocked)
		result.settle(source.rows)
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("activity: import %s: %w", into.name, err)
	}
	return result, nil
}

// firstBadRow is the error of the row that comes first: the one that could not be read, at which reading ended, or one
// before it whose user does not exist.
func firstBadRow(ctx context.Context, tx pgx.Tx, from rowSource, unreadable *RowError) error {
	line, found, err := firstUnknownUser(ctx, tx, from)
	switch {
	case err != nil:
		return err
	case found:
		return &RowError{Line: line, Column: "user_id", Err: ErrUnknownUser}
	case unreadable != nil:
		return unreadable
	}
	return nil
}

// fileSource hands the rows of a file to COPY. A row that cannot be read ends it early and is kept as bad: rows before
// it may have a fault that only the database knows.
type fileSource struct {
	file     *csvFile
	parse    parseRow
	progress func(Progress)
	values   []any
	rows     int64
	bad      *RowError
	err      error
}

func (s *fileSource) Next() bool {
	row, line, err := s.file.next()
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.As(err, &s.bad):
		return false
	default:
		s.err = fmt.Errorf("read the file: %w", err)
		return false
	}
	if err := s.parse(row, line, s.values); err != nil {
		s.bad = err.at(line)
		return false
	}
	s.rows++
	if s.rows%progressEvery == 0 {
		s.report(false)
	}
	return true
}

func (s *fileSource) Values() ([]any, error) { return s.values, nil }

func (s *fileSource) Err() error { return s.err }

func (s *fileSource) report(merging bool) {
	s.progress(Progress{Rows: s.rows, Bytes: s.file.bytes(), Merging: merging})
}

// settle counts the rest: what changed nothing.
func (r *Result) settle(rows int64) {
	r.Rows = rows
	r.Unchanged = rows - r.Inserted - r.Updated
}
