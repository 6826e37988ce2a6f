package postgres

import "context"

// The table database_history marks the history of commits that a database has. A replica that takes over begins another history, and so
// does a restore. A replica of another history does not have the mark (the SQL function database_mark). An operator reconciles a new
// history with what was lost.

// MarkHistory gives the database's history a new mark.
func MarkHistory(ctx context.Context, pool *Pool) error {
	_, err := pool.Exec(ctx, "update database_history set origin = database_origin(), mark = default")
	return Wrap("mark the history", err)
}

// MayLackCommits reports whether the database was restored, or a replica took over, since the operator last reconciled it.
func MayLackCommits(ctx context.Context, pool *Pool) (may bool, err error) {
	err = pool.QueryRow(ctx, `select exists (select 1 from database_history
		where reconciled <> database_origin() and database_origin() <> 'citus')`).Scan(&may)
	return may, Wrap("history", err)
}

// RecordReconciliation records that the operator has reconciled the database's history.
func RecordReconciliation(ctx context.Context, pool *Pool) error {
	_, err := pool.Exec(ctx, "update database_history set reconciled = database_origin()")
	return Wrap("history", err)
}
