package activity

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

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
		skipped, err := skipUnknownUsers(ctx, tx, into, skip)
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
where known.user_id is null order by named.line limit $1`, intake.MaxNamed) // ForEachRow has its error
	var line int
	var count int64
	var unknown []*intake.RowError
	_, err := pgx.ForEachRow(rows, []any{&line, &count}, func() error {
		unknown = append(unknown, &intake.RowError{Line: line, Column: "user_id", Err: refusal.ErrUserNotFound})
		return nil
	})
	if err != nil {
		return fmt.Errorf("find unknown users: %w", err)
	}
	reader.Bad().Found(count, unknown...)
	return reader.Bad().Err(reader.Rows())
}

// skipUnknownUsers removes the staged rows of unknown users and passes them to skip, as they are in the file.
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
