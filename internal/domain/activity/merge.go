package activity

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
)

// databaseState holds the facts about the database that a write needs.
type databaseState struct {
	notify bool // a client has a webhook, so that changes are recorded for it
	// sharded reports that users are spread over several databases (Citus). There, one statement cannot lock rows in several of
	// them. Conflicts that the locks prevent are detected instead: the foreign key refuses a user who was deleted, and of two writes
	// in a deadlock one is retried.
	sharded bool
}

func readState(ctx context.Context, tx pgx.Tx) (state databaseState, err error) {
	err = tx.QueryRow(ctx, `select exists (select from webhook_endpoints where stopped_at is null), `+postgres.IsSharded).Scan(&state.notify, &state.sharded)
	return state, err
}

// merge runs [table.merge], and counts the rows that it inserted and updated.
func merge(ctx context.Context, tx pgx.Tx, into table, statement string, args ...any) (result Result, err error) {
	for {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
			return tx.QueryRow(ctx, statement, args...).Scan(&result.Inserted, &result.Updated)
		})
		// Rides and adjustments have two unique keys, and the statement resolves conflicts of one of them. If two merges insert
		// the same row at the same time, one can fail on the other key; the second time it finds the row.
		if into.primaryKey != "" && postgres.Violates(err, into.primaryKey) {
			continue
		}
		if err != nil {
			return Result{}, fmt.Errorf("merge into %s: %w", into.stored, err)
		}
		return result, nil
	}
}
