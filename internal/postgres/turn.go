package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A Turn is a task that one server at a time does, of all that work on a database.
type Turn string

// The tasks. Each is a row of the table turns.
const (
	TurnSweep        Turn = "sweep"
	TurnWebhookQueue Turn = "webhook_queue"
	TurnWebhookMerge Turn = "webhook_merge"
)

// InTurn calls act in a transaction, unless another server has the turn: then it returns nil at once. The turn ends with the
// transaction, also where the server dies.
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
