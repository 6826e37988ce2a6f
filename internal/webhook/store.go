package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/postgres"
)

// store is endpoints, events and tries as rows.
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

// target is an endpoint as a try needs it.
type target struct {
	Endpoint
	secret, previousSecret string    // sealed; the second is empty unless it signs, too
	now                    time.Time // the database's clock
	// Of the event that is to be delivered.
	clientName string
	stopped    bool          // there is no endpoint, or it was stopped
	wait       time.Duration // until the next try is due
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

func (s store) endpoint(ctx context.Context, clientID uuid.UUID) (target, error) {
	row, err := s.queries.GetWebhookEndpoint(ctx, clientID)
	if errors.Is(err, pgx.ErrNoRows) {
		return target{}, ErrNoEndpoint
	}
	if err != nil {
		return target{}, err
	}
	endpoint := target{
		Endpoint: Endpoint{ClientID: row.ClientID, URL: row.Url, CreatedAt: row.CreatedAt, StoppedAt: value(row.StoppedAt)},
		secret:   row.Secret,
		now:      row.Now,
	}
	if row.Rotating {
		endpoint.previousSecret, endpoint.RotatingUntil = value(row.PreviousSecret), value(row.PreviousUntil)
	}
	return endpoint, nil
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
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(rows))
	for i, row := range rows {
		events[i] = fromRow(row)
	}
	return events, nil
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
	tries, err := s.queries.ListWebhookTries(ctx, id)
	if err != nil {
		return Event{}, err
	}
	for _, try := range tries {
		event.Tries = append(event.Tries, Try{
			Number:   int(try.Try),
			At:       try.At,
			Duration: time.Duration(try.DurationMs) * time.Millisecond,
			Status:   int(value(try.Status)),
			Fault:    value(try.Fault),
			Answer:   try.Answer,
		})
	}
	return event, nil
}

// replay makes an event pending again, which gives it a job, or brings the job of a pending event forward.
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
		if err := queries.ReplayWebhookEvent(ctx, id); err != nil || State(event.State) != Pending {
			return err
		}
		_, err = tx.Exec(ctx, `update river_job set state = 'available', scheduled_at = now()
			where kind = $1 and state in ('scheduled', 'available', 'retryable')
				and args @> jsonb_build_object('event_id', $2::uuid)`, delivery{}.Kind(), id) // sqlc does not know River's tables
		return err
	})
}

// delivery is an event with what a try needs.
func (s store) delivery(ctx context.Context, id uuid.UUID) (Event, target, error) {
	release, err := s.slot(ctx)
	if err != nil {
		return Event{}, target{}, err
	}
	row, err := s.queries.GetWebhookDelivery(ctx, id)
	release()
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, target{}, ErrNoEvent
	}
	if err != nil {
		return Event{}, target{}, err
	}
	return fromRow(row.WebhookEvent), target{
		Endpoint:       Endpoint{ClientID: row.WebhookEvent.ClientID, URL: row.Url},
		secret:         row.Secret,
		previousSecret: row.PreviousSecret,
		now:            row.Now,
		clientName:     row.ClientName,
		stopped:        row.Stopped,
		wait:           time.Duration(row.WaitSeconds * float64(time.Second)),
	}, nil
}

// recorded is what a try that was written down did.
type recorded struct {
	held    bool // the event's present job made it
	stopped bool // it stopped the endpoint
}

// record writes a try, the event's new state and, after 410, that the endpoint is stopped.
func (s store) record(
	ctx context.Context, event Event, target target, try Try, state State, delay time.Duration,
) (recorded, error) {
	params := webhookdb.RecordWebhookTryParams{
		EventID:    event.ID,
		Tries:      int32(event.TryCount),
		State:      string(state),
		Delay:      delay,
		At:         try.At,
		DurationMs: int32(try.Duration.Milliseconds()),
		Answer:     try.Answer,
		Gone:       try.Status == 410,
		Url:        target.URL,
	}
	if try.Status != 0 {
		status := int32(try.Status)
		params.Status = &status
	}
	if try.Fault != "" {
		params.Fault = &try.Fault
	}
	release, err := s.slot(ctx)
	if err != nil {
		return recorded{}, err
	}
	row, err := s.queries.RecordWebhookTry(ctx, params)
	release()
	if errors.Is(err, pgx.ErrNoRows) {
		return recorded{}, nil // the event is gone
	}
	return recorded{held: int(row.Tries) == event.TryCount+1, stopped: row.Stopped}, err
}

func (s store) fail(ctx context.Context, id uuid.UUID) (failed bool, err error) {
	n, err := s.queries.FailWebhookEvent(ctx, id)
	return n == 1, err
}

func (s store) merge(ctx context.Context, window time.Duration, connections int) (taken int, err error) {
	row, err := s.queries.MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
		WindowLength: window, MaxConnections: int32(connections),
	})
	return int(row.Connections), err
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
		TryCount:          int(row.Tries),
		NextTryAt:         value(row.NextTryAt),
		triesBefore:       int(row.TriesBefore),
	}
}

// value is what a nullable column holds, or the zero value.
func value[T any](pointer *T) (v T) {
	if pointer != nil {
		v = *pointer
	}
	return v
}
