package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// pauseLimit is how long an event waits for a paused webhook, like one whose receiver is down. Then it has failed.
const pauseLimit = 4 * 24 * time.Hour

// Pause has a client's events wait until [Webhooks.Resume]. They are written as before. A server still sends the events that it
// has taken. To pause a paused webhook changes nothing. Error: ErrNoEndpoint.
func (w *Webhooks) Pause(ctx context.Context, clientID uuid.UUID) (Endpoint, error) {
	_, err := w.queries.PauseWebhookEndpoint(ctx, webhookdb.PauseWebhookEndpointParams{ClientID: clientID, Actor: work.Actor(ctx)})
	if err != nil {
		return Endpoint{}, ofClient(clientID, err)
	}
	return w.Endpoint(ctx, clientID)
}

// Resume has the events that wait sent, the oldest first and retries last. Error: ErrNoEndpoint.
func (w *Webhooks) Resume(ctx context.Context, clientID uuid.UUID) (Endpoint, error) {
	_, err := w.queries.ResumeWebhookEndpoint(ctx, webhookdb.ResumeWebhookEndpointParams{ClientID: clientID, Actor: work.Actor(ctx)})
	if err != nil {
		return Endpoint{}, ofClient(clientID, err)
	}
	w.Wake()
	return w.Endpoint(ctx, clientID)
}

// failPaused fails the events that have waited too long for paused webhooks.
func (w *Webhooks) failPaused(ctx context.Context, now time.Time) error {
	const batch = 2000
	for {
		failed, err := w.queries.FailPausedWebhookEvents(ctx, webhookdb.FailPausedWebhookEventsParams{Before: now.Add(-pauseLimit), MaxRows: batch})
		if err != nil {
			return postgres.Wrap("fail events of paused webhooks", err)
		}
		for _, event := range failed {
			w.count(event.Name, func(s *Stats) { s.Failed++ })
			w.settled(event.ClientID, false)
		}
		if len(failed) < batch {
			return nil
		}
	}
}
