package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/panics"
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

// errLeaseLost means that another server has taken the turn.
var errLeaseLost = errors.New("the lease of the turn was lost")

// InLongTurn calls act, which may take any time, unless another server has the turn: then it returns nil at once. No transaction
// is open meanwhile: the server has the turn by a lease of the given duration, which it renews until act returns. If it cannot
// renew the lease, the context of act ends. If the server dies, another one can have the turn when the lease is over.
func InLongTurn(ctx context.Context, pool *Pool, turn Turn, lease time.Duration, act func(context.Context) error) error {
	holder := uuid.New()
	renew := func(ctx context.Context) error {
		// A lease that ends later than it could have been given until dates from before the clock was set back.
		done, err := pool.Exec(ctx, `update turns set holder = $2, held_until = connect_now() + $3::interval
			where task = $1 and (holder = $2 or held_until not between connect_now() and connect_now() + $3::interval)`,
			string(turn), holder, lease)
		if err == nil && done.RowsAffected() == 0 {
			return errLeaseLost
		}
		return err
	}
	switch err := renew(ctx); {
	case errors.Is(err, errLeaseLost): // another server has it
		return nil
	case err != nil:
		return Wrap(string(turn), err)
	}
	working, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for pause(working, lease/3) {
			if err := panics.Try(func() error { return renew(working) }); err != nil {
				stop(err)
			}
		}
	})
	err := panics.Try(func() error { return act(working) })
	if lost := context.Cause(working); lost != nil {
		err = lost
	}
	stop(nil)
	renewing.Wait()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	_, failure := pool.Exec(ending, "update turns set held_until = '-infinity' where task = $1 and holder = $2", string(turn), holder)
	return Wrap(string(turn), errors.Join(err, failure))
}
