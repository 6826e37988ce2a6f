package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Turn is what one server at a time does. It is a row of the table turns.
type Turn string

// InTurn calls act in a transaction. If another server has the turn, it returns nil at once. The turn ends with the transaction, even
// if the server dies. PostgreSQL ends a transaction that is idle for 30 s, so the act must be short.
func InTurn(ctx context.Context, pool *Pool, turn Turn, act func(pgx.Tx) error) error {
	err := InTx(ctx, pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "select turn from turns where turn = $1 for update skip locked", string(turn)).Scan(&turn)
		if err != nil {
			return err
		}
		return act(tx)
	})
	return WrapNoRows(string(turn), err, nil)
}
