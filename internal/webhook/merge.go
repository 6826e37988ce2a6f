package webhook

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/postgres"
)

const (
	// mergeInterval is how often a server checks for changes whose window is over.
	mergeInterval = time.Second
	// mergeBatch is the number of connections whose changes become events at one time, so that those of a large import are spread.
	mergeBatch = 500
)

func (w *Webhooks) mergeRegularly(ctx context.Context) {
	ticker := time.NewTicker(mergeInterval)
	defer ticker.Stop()
	for {
		if _, err := w.merge(ctx); err != nil && ctx.Err() == nil {
			w.logger.Error("changes of activity could not be merged", "cause", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns the number of connections.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	err = postgres.InTurn(ctx, w.pool, postgres.TurnWebhookMerge, func(tx pgx.Tx) error {
		n, err := w.queries.WithTx(tx).MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
			WindowLength: w.window, MaxConnections: mergeBatch,
		})
		connections = int(n)
		return err
	})
	return connections, err
}
