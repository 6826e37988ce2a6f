package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/postgres"
)

// store is endpoints, events and attempts as rows.
type store struct {
	pool    *postgres.Pool
	queries *webhookdb.Queries
	// slots are the connections that deliveries may use at the same time, half of the pool's: a burst of events must not
	// make requests wait.
	slots chan struct{}
}

func newStore(pool *postgres.Pool) store {
	return store{pool, webhookdb.New(pool), make(chan struct{}, max(1, pool.Config().MaxConns/2))}
}

// slot waits for one of the connections that deliveries may use.
func (s store) slot(ctx context.Context) (release func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// target is an endpoint as an attempt needs it.
type target struct {
	Endpoint
	secret, previousSecret string    // sealed; the second is empty unless it signs, too
	now                    time.Time // the database's clock
}

// setEndpoint moves the endpoint of a client, or makes it.
func (s store) setEndpoint(ctx context.Context, clientID uuid.UUID, url, host, secret string) (created bool, err error) {
	for range 2 { // the second time when somebody made it in between
		n, err := s.queries.MoveWebhookEndpoint(ctx, webhookdb.MoveWebhookEndpointParams{ClientID: clientID, Url: url, Host: host})
		if err != nil || n > 0 {
			return false, err
		}
		n, err = s.queries.CreateWebhookEndpoint(ctx, webhookdb.CreateWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: host, Secret: secret,
		})
		if err != nil || n > 0 {
			return true, err
		}
	}
	exists, err := s.queries.ClientExists(ctx, clientID)
	if err != nil {
		return false, err
	}
	if !exists {
		return false, ErrClientNotFound
	}
	return false, ErrClientOffboarded
}

// rotationOverlap is for how long a secret signs beside the one that replaced it.
const rotationOverlap = 24 * time.Hour

func (s store) rotateSecret(ctx context.Context, clientID uuid.UUID, secret string) error {
	return found(s.queries.RotateWebhookSecret(ctx, webhookdb.RotateWebhookSecretParams{
		ClientID: clientID, Secret: secret, Overlap: rotationOverlap,
	}))
}

func (s store) removeEndpoint(ctx context.Context, clientID uuid.UUID) error {
	return found(s.queries.RemoveWebhookEndpoint(ctx, clientID))
}

func found(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrNoEndpoint
	}
	return err
}

func (s store) target(ctx context.Context, clientID uuid.UUID) (target, error) {
	release, err := s.slot(ctx)
	if err != nil {
		return target{}, err
	}
	row, err := s.queries.GetWebhookEndpoint(ctx, clientID)
	release()
	if errors.Is(err, pgx.ErrNoRows) {
		return target{}, ErrNoEndpoint
	}
	if err != nil {
		return target{}, err
	}
	found := target{
		Endpoint: Endpoint{ClientID: row.ClientID, URL: row.Url, CreatedAt: row.CreatedAt, StoppedAt: value(row.StoppedAt)},
		secret:   row.Secret,
		now:      row.Now,
	}
	if row.Rotating {
		found.previousSecret, found.RotatingUntil = value(row.PreviousSecret), value(row.PreviousUntil)
	}
	return found, nil
}

func (s store) events(ctx context.Context, filter Filter) ([]Event, error) {
	params := webhookdb.ListWebhookEventsParams{
		AfterTime: filter.After.CreatedAt, AfterID: filter.After.ID, MaxRows: int32(filter.Limit),
	}
	if filter.ClientID != uuid.Nil {
		params.ClientID = &filter.ClientID
	}
	if filter.State != "" {
		state := string(filter.State)
		params.State = &state
	}
	rows, err := s.queries.ListWebhookEvents(ctx, params)
	return fromRows(rows), err
}

func (s store) event(ctx context.Context, id uuid.UUID) (Event, error) {
	row, err := s.queries.GetWebhookEvent(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrNoEvent
	}
	if err != nil {
		return Event{}, err
	}
	event := fromRow(row)
	attempts, err := s.queries.ListWebhookAttempts(ctx, id)
	if err != nil {
		return Event{}, err
	}
	for _, attempt := range attempts {
		event.Attempts = append(event.Attempts, Attempt{
			Number:   int(attempt.Attempt),
			At:       attempt.At,
			Duration: time.Duration(attempt.DurationMs) * time.Millisecond,
			Status:   int(value(attempt.Status)),
			Fault:    value(attempt.Fault),
			Response: attempt.Response,
		})
	}
	return event, nil
}

// replay makes an event pending again, and due.
func (s store) replay(ctx context.Context, id uuid.UUID) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		event, err := queries.LockWebhookEvent(ctx, id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNoEvent
		case err != nil:
			return err
		case !event.HasEndpoint:
			return ErrNoEndpoint
		case event.Stopped:
			return ErrStopped
		}
		return queries.ReplayWebhookEvent(ctx, id)
	})
}

// claim leases up to limit events that are due, of which no client gets more than its share leaves beside what is in
// flight.
func (s store) claim(ctx context.Context, inFlight map[uuid.UUID]int, limit int) ([]Event, error) {
	counts, err := json.Marshal(inFlight)
	if err != nil {
		return nil, err
	}
	rows, err := s.queries.ClaimWebhookEvents(ctx, webhookdb.ClaimWebhookEventsParams{
		Lease: leaseTime, ClientShare: clientShare, InFlight: counts, MaxEvents: int32(limit),
	})
	return fromRows(rows), err
}

// recorded is the effect of an attempt.
type recorded struct {
	clientName string
	held       bool // no other server had recorded an attempt since the event was leased
	stopped    bool // it stopped the endpoint
}

// record writes an attempt, the event's new state and, after 410, that the endpoint is stopped. Errors: ErrNoEvent.
func (s store) record(
	ctx context.Context, event Event, target target, attempt Attempt, state State, delay time.Duration,
) (recorded, error) {
	params := webhookdb.RecordWebhookAttemptParams{
		EventID:    event.ID,
		Attempts:   int32(event.AttemptCount),
		State:      string(state),
		Delay:      delay,
		At:         attempt.At,
		DurationMs: int32(attempt.Duration.Milliseconds()),
		Response:   attempt.Response,
		Gone:       attempt.Status == http.StatusGone,
		Url:        target.URL,
	}
	if attempt.Status != 0 {
		status := int32(attempt.Status)
		params.Status = &status
	}
	if attempt.Fault != "" {
		params.Fault = &attempt.Fault
	}
	release, err := s.slot(ctx)
	if err != nil {
		return recorded{}, err
	}
	row, err := s.queries.RecordWebhookAttempt(ctx, params)
	release()
	if errors.Is(err, pgx.ErrNoRows) {
		return recorded{}, ErrNoEvent
	}
	return recorded{row.ClientName, int(row.Attempts) == event.AttemptCount+1, row.Stopped}, err
}

func (s store) fail(ctx context.Context, id uuid.UUID) (clientName string, failed bool, err error) {
	release, err := s.slot(ctx)
	if err != nil {
		return "", false, err
	}
	clientName, err = s.queries.FailWebhookEvent(ctx, id)
	release()
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return clientName, err == nil, err
}

func (s store) merge(ctx context.Context, window time.Duration, limit int) (connections int, err error) {
	n, err := s.queries.MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
		WindowLength: window, MaxConnections: int32(limit),
	})
	return int(n), err
}

func (s store) sweep(ctx context.Context, age time.Duration, limit int) (n int64, err error) {
	return s.queries.SweepWebhookEvents(ctx, webhookdb.SweepWebhookEventsParams{Age: age, MaxRows: int32(limit)})
}

// pending adds to all what is to be delivered.
func (s store) pending(ctx context.Context, all map[string]Stats) error {
	rows, err := s.queries.CountPendingWebhookEvents(ctx)
	for _, row := range rows {
		stats := all[row.Name]
		stats.Client, stats.Pending = row.Name, row.Pending
		stats.Oldest = time.Duration(row.OldestSeconds * float64(time.Second))
		all[row.Name] = stats
	}
	return err
}

func fromRows(rows []webhookdb.WebhookEvent) []Event {
	events := make([]Event, len(rows))
	for i, row := range rows {
		events[i] = fromRow(row)
	}
	return events
}

func fromRow(row webhookdb.WebhookEvent) Event {
	return Event{
		ID:                row.EventID,
		ClientID:          row.ClientID,
		Type:              row.Type,
		GrantID:           row.GrantID,
		ConnectionVersion: row.ConnectionVersion,
		Reason:            value(row.Reason),
		Datasets:          value(row.Datasets),
		FirstDate:         value(row.FirstDate),
		LastDate:          value(row.LastDate),
		CreatedAt:         row.CreatedAt,
		State:             State(row.State),
		AttemptCount:      int(row.Attempts),
		NextAttemptAt:     value(row.NextAttemptAt),
		attemptsBefore:    int(row.AttemptsBefore),
	}
}

// value is what a nullable column holds, or the zero value.
func value[T any](pointer *T) (v T) {
	if pointer != nil {
		v = *pointer
	}
	return v
}
