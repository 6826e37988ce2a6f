package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/foundation/scope"
)

// SendSample sends a made-up event of a type to a client's receiver, signed like a real one, and returns the outcome. The
// sample is not in the log, is not sent again, and concerns no connection. A stopped endpoint gets it, too. Errors:
// ErrNoEndpoint, ErrEventType.
func (w *Webhooks) SendSample(ctx context.Context, clientID uuid.UUID, eventType string) (Attempt, error) {
	target, err := w.target(ctx, clientID)
	if err != nil {
		return Attempt{}, err
	}
	sample := Event{
		ID: uuid.New(), Type: eventType, GrantID: uuid.New(), ConnectionVersion: 1, CreatedAt: target.now,
	}
	switch eventType {
	case ConnectionRevoked:
		sample.Reason = string(partnerapi.ConnectionRevokedDataReasonUserDisconnected)
	case ActivityUpdated:
		sample.Datasets = scope.DailySteps
		sample.LastDate = target.now.UTC().Truncate(24 * time.Hour)
		sample.FirstDate = sample.LastDate.AddDate(0, 0, -1)
	}
	attempt, _, err := w.send(ctx, sample, target)
	if err == nil {
		err = ctx.Err()
	}
	return attempt, err
}
