package webhook

import (
	"context"
	"time"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/postgres"
)

// maxAge is how long settled events are kept after they were written.
const maxAge = 30 * 24 * time.Hour

// Sweep deletes the events that were older than 30 days at that time and are not pending, with their attempts.
func (w *Webhooks) Sweep(ctx context.Context, before time.Time) error {
	const batch = 2000
	for {
		n, err := w.queries.SweepWebhookEvents(ctx, webhookdb.SweepWebhookEventsParams{Before: before.Add(-maxAge), MaxRows: batch})
		if err != nil || n < batch {
			return postgres.Wrap("sweep webhook events", err)
		}
	}
}
