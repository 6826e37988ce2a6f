package webhook

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
)

// maxAge is how long settled events are kept after they were written.
const maxAge = 30 * 24 * time.Hour

// Sweep deletes the events that were older than 30 days at that time and are not pending, with their attempts. Before, it brings what
// is in webhook_queue, and fails what has waited too long for paused webhooks.
func (w *Webhooks) Sweep(ctx context.Context, before time.Time) error {
	const batch = 2000
	if err := w.bringQueued(ctx); err != nil {
		return postgres.Wrap("bring queued webhook events", err)
	}
	if err := w.failPaused(ctx, before); err != nil {
		return err
	}
	for {
		n, err := w.queries.SweepWebhookEvents(ctx, webhookdb.SweepWebhookEventsParams{Before: before.Add(-maxAge), MaxRows: batch})
		if err != nil || n < batch {
			return postgres.Wrap("sweep webhook events", err)
		}
	}
}

// bringQueued has the events of webhook_queue wait in their own rows.
//
// until 1.3.0: programs of 1.0.0 put them there, and other servers may still be such programs.
func (w *Webhooks) bringQueued(ctx context.Context) error {
	const batch = 100
	for {
		n := 0
		err := postgres.InTx(ctx, w.pool, func(tx pgx.Tx) error {
			queries := w.queries.WithTx(tx)
			rows, err := queries.TakeQueuedWebhookEvents(ctx, batch)
			for n = 0; err == nil && n < len(rows); n++ {
				err = queries.BringQueuedWebhookEvent(ctx, webhookdb.BringQueuedWebhookEventParams{
					UserID: rows[n].UserID, EventID: rows[n].EventID, DueAt: rows[n].NextAttemptAt,
				})
			}
			return err
		})
		if err != nil || n < batch {
			return err
		}
	}
}
