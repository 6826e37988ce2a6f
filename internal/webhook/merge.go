package webhook

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/panics"
	"connect-svc/internal/postgres"
)

const (
	// mergeInterval is the pause after a merge.
	mergeInterval = time.Second
	// mergeBatch is the number of connections whose changes become events at one time, so that those of a large import are spread.
	mergeBatch = 500
)

// mergeChanges merges changes when a poll has found some whose window is over.
func (w *Webhooks) mergeChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		n := 0
		err := panics.Try(func() (err error) {
			n, err = w.merge(ctx)
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			w.logger.Error("changes of activity could not be merged", "cause", err)
		case n > 0:
			w.Wake()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(mergeInterval):
		}
		select {
		case <-w.changed: // by a poll before the end of this merge; the next poll knows better
		default:
		}
	}
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns the number of connections.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	err = postgres.InTurn(ctx, w.pool, turnMerge, func(tx pgx.Tx) error {
		n, err := w.queries.WithTx(tx).MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
			WindowLength: w.window, MaxConnections: mergeBatch, Expected: w.pool.Expected(),
		})
		connections = int(n)
		return err
	})
	return connections, err
}
