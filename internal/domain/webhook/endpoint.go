package webhook

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	// ClientStatus is active, disabled (events wait until the client is enabled) or offboarded (nothing is sent).
	ClientStatus string
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
	targets, err := w.targets(ctx, clientID)
	if err == nil && targets[clientID].URL == "" {
		err = ErrNoEndpoint
	}
	return targets[clientID], ofClient(clientID, err)
}

// targets returns the targets of clients. A client without an endpoint has an empty URL.
func (w *Webhooks) targets(ctx context.Context, clients ...uuid.UUID) (map[uuid.UUID]target, error) {
	rows, err := w.queries.ListWebhookTargets(ctx, webhookdb.ListWebhookTargetsParams{ClientIds: clients})
	targets := make(map[uuid.UUID]target, len(rows))
	for _, row := range rows {
		t := target{
			Endpoint: Endpoint{
				ClientID: row.ClientID, URL: row.Url, CreatedAt: postgres.Value(row.CreatedAt), StoppedAt: postgres.Value(row.StoppedAt),
				PausedAt: postgres.Value(row.PausedAt), ClientStatus: row.Status,
			},
			clientName: row.Name, parallel: int(row.WebhookParallel), secret: row.Secret, now: row.Now,
		}
		if row.Rotating {
			t.previousSecret, t.RotatingUntil = postgres.Value(row.PreviousSecret), postgres.Value(row.PreviousUntil)
		}
		targets[row.ClientID] = t
	}
	return targets, err
}

// errUnchanged is the error of an act that has changed no row.
var errUnchanged = errors.New("nothing has changed")

// act makes one that costs others something: see Settings.Costly. Errors: errUnchanged, refusal.OverBudget.
func (w *Webhooks) act(ctx context.Context, clientID uuid.UUID, action string, change func(*webhookdb.Queries) (int64, error)) error {
	return w.costly(ctx, clientID, action, func(tx pgx.Tx) error {
		changed, err := change(w.queries.WithTx(tx))
		if err == nil && changed == 0 {
			err = errUnchanged
		}
		return err
	})
}

// SetEndpoint sets where a client's events are sent. The first call makes the signing secret, `whsec_…`, which cannot be
// shown again. Later calls keep the secret, return "", and start an endpoint that was stopped. Errors: refusal.Field,
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
	host, actor := parsed.Hostname(), work.Actor(ctx)
	for range 2 { // again if another call created the endpoint in between
		err := w.act(ctx, clientID, "webhook.url_set", func(queries *webhookdb.Queries) (int64, error) {
			return queries.MoveWebhookEndpoint(ctx, webhookdb.MoveWebhookEndpointParams{ClientID: clientID, Url: url, Host: host, Actor: actor})
		})
		if !errors.Is(err, errUnchanged) {
			return "", ofClient(clientID, err)
		}
		if err = w.failLeft(ctx, clientID); err != nil { // by a removal that was broken off: they would be sent to this webhook
			return "", ofClient(clientID, err)
		}
		err = w.act(ctx, clientID, "webhook.created", func(queries *webhookdb.Queries) (int64, error) {
			if clientID == Operator {
				return queries.CreateOperatorWebhook(ctx, webhookdb.CreateOperatorWebhookParams{Url: url, Host: host, Secret: sealed, Actor: actor})
			}
			return queries.CreateWebhookEndpoint(ctx, webhookdb.CreateWebhookEndpointParams{ClientID: clientID, Url: url, Host: host, Secret: sealed, Actor: actor})
		})
		if err == nil {
			return secret, nil
		} else if !errors.Is(err, errUnchanged) {
			return "", ofClient(clientID, err)
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

// RemoveEndpoint ends a client's webhook: no more events are written for it, and pending events fail. The log of
// its events stays. Errors: ErrNoEndpoint.
func (w *Webhooks) RemoveEndpoint(ctx context.Context, clientID uuid.UUID) error {
	err := w.act(ctx, clientID, "webhook.removed", func(queries *webhookdb.Queries) (int64, error) {
		return queries.RemoveWebhookEndpoint(ctx, webhookdb.RemoveWebhookEndpointParams{ClientID: clientID, Actor: work.Actor(ctx)})
	})
	if errors.Is(err, errUnchanged) {
		err = ErrNoEndpoint
	} else if err == nil {
		if failure := w.failLeft(ctx, clientID); failure != nil { // the webhook is removed, and the rest fail when they are due, or before the next one is set
			w.logger.Warn("events of a removed webhook still wait", "client_id", clientID, "cause", failure)
		}
	}
	return ofClient(clientID, err)
}

// failLeft fails the events that wait for a client without a webhook.
func (w *Webhooks) failLeft(ctx context.Context, clientID uuid.UUID) error {
	return postgres.Sweep(ctx, w.queries.FailEventsOfRemovedWebhook, webhookdb.FailEventsOfRemovedWebhookParams{ClientID: clientID, MaxRows: 2000})
}

// MaxURL bounds the length of a receiver's URL in characters.
const MaxURL = 2048

func wrongURL(problem string) error { return refusal.Field{Path: "url", Problem: problem} }

// ValidateURL reports whether events can be sent to a URL: https, with a host, without user information and fragment, up
// to 2,048 visible ASCII characters. The address behind its name is checked at each connection. Error: refusal.Field of url, without the URL.
func ValidateURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > MaxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, wrongURL("must be up to " + strconv.Itoa(MaxURL) + " visible ASCII characters")
	}
	parsed, err := url.Parse(text) // decodes the host, which the audit log has: %ff is not UTF-8
	if err != nil || !strings.HasPrefix(text, "https://") || parsed.Hostname() == "" || !utf8.ValidString(parsed.Host) {
		return nil, wrongURL("must be an https URL such as https://partner.example/webhooks")
	}
	if parsed.User != nil || strings.Contains(text, "#") {
		return nil, wrongURL("must have no user, password or fragment")
	}
	if port, err := strconv.ParseUint(cmp.Or(parsed.Port(), "443"), 10, 16); err != nil || port == 0 || strings.HasSuffix(parsed.Host, ":") {
		return nil, wrongURL("must have a port from 1 to 65535, or none")
	}
	return parsed, nil
}

// pauseLimit is how long an event waits for a paused webhook or a disabled client, like one whose receiver is down. Then it has failed.
const pauseLimit = 4 * 24 * time.Hour

// Pause has a client's events wait until [Webhooks.Resume]. They are written as before. A server still sends the events that it
// has taken. To pause a paused webhook changes nothing. Error: ErrNoEndpoint.
func (w *Webhooks) Pause(ctx context.Context, clientID uuid.UUID) (Endpoint, error) {
	if _, err := w.queries.PauseWebhookEndpoint(ctx, webhookdb.PauseWebhookEndpointParams{ClientID: clientID, Actor: work.Actor(ctx)}); err != nil {
		return Endpoint{}, ofClient(clientID, err)
	}
	return w.Endpoint(ctx, clientID)
}

// Resume has the events that wait sent, the oldest first and retries last. Error: ErrNoEndpoint.
func (w *Webhooks) Resume(ctx context.Context, clientID uuid.UUID) (Endpoint, error) {
	if _, err := w.queries.ResumeWebhookEndpoint(ctx, webhookdb.ResumeWebhookEndpointParams{ClientID: clientID, Actor: work.Actor(ctx)}); err != nil {
		return Endpoint{}, ofClient(clientID, err)
	}
	w.Wake()
	return w.Endpoint(ctx, clientID)
}

// failPaused fails the events that have waited too long for paused webhooks and disabled clients.
func (w *Webhooks) failPaused(ctx context.Context, now time.Time) error {
	const batch = 2000
	for {
		failed, err := w.queries.FailPausedWebhookEvents(ctx, webhookdb.FailPausedWebhookEventsParams{Before: now.Add(-pauseLimit), MaxRows: batch})
		if err != nil {
			return postgres.Wrap("fail events of paused webhooks", err)
		}
		targets, err := w.targets(ctx, failed...)
		if err != nil {
			return postgres.Wrap("fail events of paused webhooks", err)
		}
		for _, clientID := range failed {
			w.count(targets[clientID].clientName, func(s *Stats) { s.Failed++ })
			w.settled(clientID, false)
		}
		if len(failed) < batch {
			return nil
		}
	}
}

// SecretOverlap is how long a replaced secret usually signs beside the new one.
const SecretOverlap = 24 * time.Hour

// RotateSecret makes a new signing secret and returns it. The previous one signs beside it for the overlap, 0 or more. seenUntil is the
// [Endpoint.RotatingUntil] that the caller has seen, or nil: if another secret signs beside the newest one by now, nothing is
// replaced. Errors: ErrNoEndpoint, ErrReplacedSince, refusal.OverBudget.
func (w *Webhooks) RotateSecret(ctx context.Context, clientID uuid.UUID, overlap time.Duration, seenUntil *time.Time) (string, error) {
	secret, sealed, err := w.newSecret()
	if err != nil {
		return "", ofClient(clientID, err)
	}
	err = w.act(ctx, clientID, "webhook.secret_rotated", func(queries *webhookdb.Queries) (int64, error) {
		return queries.RotateWebhookSecret(ctx, webhookdb.RotateWebhookSecretParams{
			ClientID: clientID, Secret: sealed, Overlap: overlap, SeenUntil: seenUntil, Actor: work.Actor(ctx),
		})
	})
	if errors.Is(err, errUnchanged) {
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
