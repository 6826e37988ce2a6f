package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A Turn is a task that one server at a time does, of all that work on a database: a row of the table turns.
type Turn string

// InTurn calls act in a transaction, unless another server has the turn: then it returns nil at once. The turn ends with the
// transaction, also if the server dies. The transaction must be short: PostgreSQL ends one that is idle for 30 s.
func InTurn(ctx context.Context, pool *Pool, turn Turn, act func(pgx.Tx) error) error {
	err := InTx(ctx, pool, func(tx pgx.Tx) error {
		var task string
		err := tx.QueryRow(ctx, "select task from turns where task = $1 for update skip locked", string(turn)).Scan(&task)
		if err != nil {
			return err
		}
		return act(tx)
	})
	return WrapNoRows(string(turn), err, nil)
}
