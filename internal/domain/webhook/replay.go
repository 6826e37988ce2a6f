package webhook

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Replay has an event sent at once, with the same webhook-id, whatever its state; its schedule of attempts begins again.
// Errors: ErrNoEvent, ErrNoEndpoint, ErrStopped.
func (w *Webhooks) Replay(ctx context.Context, id uuid.UUID) error {
	defer w.Wake()
	return ofEvent(id, postgres.InTx(ctx, w.pool, func(tx pgx.Tx) error {
		queries := w.queries.WithTx(tx)
		row, err := queries.GetWebhookEvent(ctx, id)
		if err != nil {
			return postgres.NoRowsAs(err, ErrNoEvent)
		}
		event, err := queries.LockWebhookEvent(ctx, webhookdb.LockWebhookEventParams{UserID: row.UserID, EventID: id})
		switch {
		case err != nil:
			return postgres.NoRowsAs(err, ErrNoEvent)
		case !event.HasEndpoint:
			return ErrNoEndpoint
		case event.Stopped:
			return ErrStopped
		}
		return queries.ReplayWebhookEvent(ctx, webhookdb.ReplayWebhookEventParams{
			UserID: row.UserID, EventID: id, Actor: work.Actor(ctx),
		})
	}))
}

// ReplayFailed replays up to atMost of a client's failed events, oldest first, as [Webhooks.Replay] does. It returns how many,
// also with an error. Errors: ErrNoEndpoint, ErrStopped.
func (w *Webhooks) ReplayFailed(ctx context.Context, clientID uuid.UUID, atMost int) (replayed int, err error) {
	failed, err := w.Events(ctx, Filter{ClientID: clientID, State: Failed, Limit: atMost})
	if err != nil {
		return 0, err
	}
	for _, event := range failed {
		switch err := w.Replay(ctx, event.ID); {
		case err == nil:
			replayed++
		case !errors.Is(err, ErrNoEvent): // the user's account was deleted since
			return replayed, err
		}
	}
	return replayed, nil
}
