package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/work"
)

// rotationOverlap is how long a secret signs beside the one that replaced it.
const rotationOverlap = 24 * time.Hour

// RotateSecret makes a new signing secret and returns it. The previous one signs beside it for 24 hours. seenUntil is the
// [Endpoint.RotatingUntil] that the caller has seen, or nil: if another secret signs beside the newest one by now, nothing is
// replaced. Errors: ErrNoEndpoint, ErrReplacedSince.
func (w *Webhooks) RotateSecret(ctx context.Context, clientID uuid.UUID, seenUntil *time.Time) (string, error) {
	secret, sealed, err := w.newSecret()
	if err != nil {
		return "", ofClient(clientID, err)
	}
	n, err := w.queries.RotateWebhookSecret(ctx, webhookdb.RotateWebhookSecretParams{
		ClientID: clientID, Secret: sealed, Overlap: rotationOverlap, SeenUntil: seenUntil, Actor: work.Actor(ctx),
		Expected: w.pool.Expected(),
	})
	if err == nil && n == 0 {
		if _, err := w.Endpoint(ctx, clientID); err != nil {
			return "", err
		}
		err = ErrReplacedSince
	}
	if err != nil {
		return "", ofClient(clientID, err)
	}
	return secret, nil
}
