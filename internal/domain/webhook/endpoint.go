package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// Endpoint is where a client's events are sent.
type Endpoint struct {
	ClientID  uuid.UUID
	URL       string
	CreatedAt time.Time
	// StoppedAt is when the receiver answered 410 Gone; since then nothing is sent. Zero: it was not stopped.
	StoppedAt time.Time
	// PausedAt is since when events wait until the webhook is resumed. Zero: it is not paused.
	PausedAt time.Time
	// RotatingUntil is when the previous secret stops signing beside the current one. Zero: one secret signs.
	RotatingUntil time.Time
}

// target is an endpoint with the facts that an attempt needs.
type target struct {
	Endpoint
	clientName             string
	parallel               int       // events that are sent at the same time
	secret, previousSecret string    // sealed; the second is empty unless it also signs
	now                    time.Time // the database's clock, or what it should show if it is not believed
}

// Endpoint returns where a client's events are sent. Errors: ErrNoEndpoint.
func (w *Webhooks) Endpoint(ctx context.Context, clientID uuid.UUID) (Endpoint, error) {
	target, err := w.target(ctx, clientID)
	return target.Endpoint, err
}

func (w *Webhooks) target(ctx context.Context, clientID uuid.UUID) (target, error) {
	found, err := w.targets(ctx, clientID)
	if err == nil && found[clientID].URL == "" {
		err = ErrNoEndpoint
	}
	return found[clientID], ofClient(clientID, err)
}

// targets returns the targets of clients. A client without an endpoint has an empty URL.
func (w *Webhooks) targets(ctx context.Context, clients ...uuid.UUID) (map[uuid.UUID]target, error) {
	rows, err := w.queries.ListWebhookTargets(ctx, webhookdb.ListWebhookTargetsParams{ClientIds: clients, Expected: w.pool.Expected()})
	targets := make(map[uuid.UUID]target, len(rows))
	for _, row := range rows {
		found := target{
			Endpoint: Endpoint{
				ClientID: row.ClientID, URL: row.Url, CreatedAt: postgres.Value(row.CreatedAt), StoppedAt: postgres.Value(row.StoppedAt),
				PausedAt: postgres.Value(row.PausedAt),
			},
			clientName: row.Name,
			parallel:   int(row.WebhookParallel),
			secret:     row.Secret,
			now:        row.Now,
		}
		if row.Rotating {
			found.previousSecret, found.RotatingUntil = postgres.Value(row.PreviousSecret), postgres.Value(row.PreviousUntil)
		}
		targets[row.ClientID] = found
	}
	return targets, err
}

// SetEndpoint sets where a client's events are sent. The first call makes the signing secret, `whsec_…`, which cannot be
// shown again. Later calls keep the secret, return "", and start an endpoint that was stopped. Errors: *refusal.FieldError,
// refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (w *Webhooks) SetEndpoint(ctx context.Context, clientID uuid.UUID, url string) (secret string, err error) {
	parsed, err := parseURL(url)
	if err != nil {
		return "", err
	}
	secret, sealed, err := w.newSecret()
	if err != nil {
		return "", ofClient(clientID, err)
	}
	for range 2 { // again if another call created the endpoint in between
		n, err := w.queries.MoveWebhookEndpoint(ctx, webhookdb.MoveWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: parsed.Hostname(), Actor: work.Actor(ctx),
		})
		if err != nil || n > 0 {
			return "", ofClient(clientID, err)
		}
		n, err = w.queries.CreateWebhookEndpoint(ctx, webhookdb.CreateWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: parsed.Hostname(), Secret: sealed, Actor: work.Actor(ctx),
		})
		if err != nil {
			return "", ofClient(clientID, err)
		}
		if n > 0 {
			return secret, nil
		}
	}
	exists, err := w.queries.ClientExists(ctx, clientID)
	if err == nil && exists {
		err = refusal.ErrClientOffboarded
	} else if err == nil {
		err = refusal.ErrClientNotFound
	}
	return "", ofClient(clientID, err)
}

// RemoveEndpoint ends a client's webhook: no more events are written for it, and pending events are not sent. The log of
// its events stays. Errors: ErrNoEndpoint.
func (w *Webhooks) RemoveEndpoint(ctx context.Context, clientID uuid.UUID) error {
	n, err := w.queries.RemoveWebhookEndpoint(ctx, webhookdb.RemoveWebhookEndpointParams{ClientID: clientID, Actor: work.Actor(ctx)})
	if err == nil && n == 0 {
		err = ErrNoEndpoint
	}
	return ofClient(clientID, err)
}
