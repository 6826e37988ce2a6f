package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/actor"
	"connect-svc/internal/postgres"
)

// store is endpoints, events and attempts as rows.
type store struct {
	pool    *postgres.Pool
	queries *webhookdb.Queries
	lists   *webhookdb.Queries // planned for the filters that are given
	// slots are the connections that deliveries may use at the same time, half of the pool's: a burst of events must not
	// make requests wait.
	slots chan struct{}
}

func newStore(pool *postgres.Pool) store {
	return store{pool, webhookdb.New(pool), webhookdb.New(postgres.Replanned{Pool: pool}), make(chan struct{}, max(1, pool.Config().MaxConns/2))}
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
	clientName             string
	parallel               int       // events that are sent at the same time
	secret, previousSecret string    // sealed; the second is empty unless it signs, too
	now                    time.Time // the database's clock
}

// setEndpoint moves the endpoint of a client, or makes it.
func (s store) setEndpoint(ctx context.Context, clientID uuid.UUID, url, host, secret string) (created bool, err error) {
	for range 2 { // the second time when somebody made it in between
		n, err := s.queries.MoveWebhookEndpoint(ctx, webhookdb.MoveWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: host, Actor: actor.Of(ctx),
		})
		if err != nil || n > 0 {
			return false, err
		}
		n, err = s.queries.CreateWebhookEndpoint(ctx, webhookdb.CreateWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: host, Secret: secret, Actor: actor.Of(ctx),
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
		ClientID: clientID, Secret: secret, Overlap: rotationOverlap, Actor: actor.Of(ctx),
	}))
}

func (s store) removeEndpoint(ctx context.Context, clientID uuid.UUID) error {
	return found(s.queries.RemoveWebhookEndpoint(ctx, webhookdb.RemoveWebhookEndpointParams{ClientID: clientID, Actor: actor.Of(ctx)}))
}

func found(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrNoEndpoint
	}
	return err
}

func (s store) target(ctx context.Context, clientID uuid.UUID) (target, error) {
	row, err := s.queries.GetWebhookEndpoint(ctx, clientID)
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
	if filter.LatestFirst {
		return s.latest(ctx, filter)
	}
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
	rows, err := s.lists.ListWebhookEvents(ctx, params)
	if err != nil {
		return nil, err
	}
	return s.withDue(ctx, fromRows(rows))
}

// latest are the events of a client, the latest first.
func (s store) latest(ctx context.Context, filter Filter) ([]Event, error) {
	params := webhookdb.ListLatestWebhookEventsParams{
		ClientID: filter.ClientID, BeforeTime: filter.After.CreatedAt, BeforeID: filter.After.ID, MaxRows: int32(filter.Limit),
	}
	if filter.After == (Position{}) {
		params.BeforeTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if filter.State != "" {
		state := string(filter.State)
		params.State = &state
	}
	rows, err := s.lists.ListLatestWebhookEvents(ctx, params)
	if err != nil {
		return nil, err
	}
	return s.withDue(ctx, fromRows(rows))
}

// count counts what is in the queue for a client, or what has failed, up to a bound.
func (s store) count(ctx context.Context, clientID uuid.UUID, failed bool, atMost int32) (int64, error) {
	if failed {
		return s.queries.CountFailedWebhookEvents(ctx, webhookdb.CountFailedWebhookEventsParams{ClientID: clientID, AtMost: atMost})
	}
	return s.queries.CountQueuedWebhookEvents(ctx, webhookdb.CountQueuedWebhookEventsParams{ClientID: clientID, AtMost: atMost})
}

// eventsOf are the events of a connection, newest first, with their last attempts.
func (s store) eventsOf(ctx context.Context, userID, clientID uuid.UUID, before Position, limit int) ([]Event, error) {
	rows, err := s.queries.ListEventsOfConnection(ctx, webhookdb.ListEventsOfConnectionParams{
		UserID: userID, ClientID: clientID, BeforeTime: before.CreatedAt, BeforeID: before.ID, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	events, err := s.withDue(ctx, fromRows(rows))
	if err != nil {
		return nil, err
	}
	attempts, err := s.queries.ListLatestAttempts(ctx, webhookdb.ListLatestAttemptsParams{UserID: userID, EventIds: ids(events)})
	if err != nil {
		return nil, err
	}
	of := map[uuid.UUID][]Attempt{}
	for _, row := range attempts {
		of[row.EventID] = append(of[row.EventID], Attempt{
			Number: int(row.Attempt), At: row.At, Duration: time.Duration(row.DurationMs) * time.Millisecond,
			Status: int(value(row.Status)), Fault: value(row.Fault),
		})
	}
	for i, event := range events {
		events[i].Attempts = of[event.ID]
	}
	return events, nil
}

// withDue says when those of the events are due that are pending: as soon as they are in the queue, if they are not there yet.
func (s store) withDue(ctx context.Context, events []Event) ([]Event, error) {
	rows, err := s.queries.ListQueued(ctx, ids(events))
	if err != nil {
		return nil, err
	}
	due := make(map[uuid.UUID]time.Time, len(rows))
	for _, row := range rows {
		due[row.EventID] = row.NextAttemptAt
	}
	for i, event := range events {
		if at, queued := due[event.ID]; queued && event.State == Pending {
			events[i].NextAttemptAt = at
		} else if event.State == Pending {
			events[i].NextAttemptAt = event.CreatedAt
		}
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
	found, err := s.withDue(ctx, []Event{fromRow(row)})
	if err != nil {
		return Event{}, err
	}
	event := found[0]
	attempts, err := s.queries.ListWebhookAttempts(ctx, webhookdb.ListWebhookAttemptsParams{UserID: row.UserID, EventID: id})
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
		row, err := queries.GetWebhookEvent(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoEvent
		}
		if err != nil {
			return err
		}
		event, err := queries.LockWebhookEvent(ctx, webhookdb.LockWebhookEventParams{UserID: row.UserID, EventID: id})
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
		if err := queries.ReplayWebhookEvent(ctx, webhookdb.ReplayWebhookEventParams{
			UserID: row.UserID, EventID: id, Actor: actor.Of(ctx),
		}); err != nil {
			return err
		}
		return queries.QueueReplay(ctx, webhookdb.QueueReplayParams{
			EventID: id, UserID: row.UserID, ClientID: row.ClientID, CreatedAt: row.CreatedAt,
		})
	})
}

// queue puts up to limit events into the queue that were written since, and returns how many.
func (s store) queue(ctx context.Context, limit int) (n int, err error) {
	err = postgres.InTurn(ctx, s.pool, postgres.TurnWebhookQueue, func(tx pgx.Tx) error {
		rows, err := s.queries.WithTx(tx).QueueWebhookEvents(ctx, int32(limit))
		n = int(rows)
		return err
	})
	return n, err
}

// claim leases up to limit events that are due. room is for how many of each client there is room; of a client that it does
// not have, as many as are sent at the same time.
func (s store) claim(ctx context.Context, room map[uuid.UUID]int, limit int) ([]claimed, error) {
	roomJSON, err := json.Marshal(room)
	if err != nil {
		return nil, err
	}
	leased, err := s.queries.ClaimWebhookEvents(ctx, webhookdb.ClaimWebhookEventsParams{
		Lease: leaseTime, Room: roomJSON, MaxEvents: int32(limit),
	})
	if err != nil || len(leased) == 0 {
		return nil, err
	}
	at := time.Now()
	params := webhookdb.ListClaimedParams{}
	missing := map[uuid.UUID]bool{}
	var clients []uuid.UUID
	for _, row := range leased {
		params.UserIds, params.EventIds = append(params.UserIds, row.UserID), append(params.EventIds, row.EventID)
		missing[row.EventID] = true
		if !slices.Contains(clients, row.ClientID) {
			clients = append(clients, row.ClientID)
		}
	}
	targets, err := s.targets(ctx, clients)
	if err != nil {
		return nil, err
	}
	rows, err := s.queries.ListClaimed(ctx, params)
	if err != nil {
		return nil, err
	}
	list := make([]claimed, 0, len(rows))
	for _, row := range rows {
		delete(missing, row.EventID)
		list = append(list, claimed{fromRow(row), targets[row.ClientID], at})
	}
	slices.SortFunc(list, func(a, b claimed) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if len(missing) > 0 { // they went with an account
		return list, s.queries.Unqueue(ctx, slices.Collect(maps.Keys(missing)))
	}
	return list, nil
}

// targets are where the events of clients go. The URL is empty where there is no endpoint, or it was stopped.
func (s store) targets(ctx context.Context, clients []uuid.UUID) (map[uuid.UUID]target, error) {
	rows, err := s.queries.ListWebhookTargets(ctx, clients)
	targets := make(map[uuid.UUID]target, len(rows))
	for _, row := range rows {
		targets[row.ClientID] = target{
			Endpoint:       Endpoint{ClientID: row.ClientID, URL: row.Url},
			clientName:     row.Name,
			parallel:       int(row.WebhookParallel),
			secret:         row.Secret,
			previousSecret: row.PreviousSecret,
			now:            row.Now,
		}
	}
	return targets, err
}

func (s store) release(ctx context.Context, events []claimed) error {
	list := make([]uuid.UUID, len(events))
	for i, event := range events {
		list[i] = event.ID
	}
	return s.queries.Release(ctx, list)
}

// record writes an attempt and the event's new state. held says that no other server had recorded an attempt since the event
// was leased. Errors: ErrNoEvent.
func (s store) record(ctx context.Context, event Event, attempt Attempt, state State, delay time.Duration) (held bool, err error) {
	params := webhookdb.RecordWebhookAttemptParams{
		UserID:     event.userID,
		EventID:    event.ID,
		Attempts:   int32(event.AttemptCount),
		State:      string(state),
		Delay:      delay,
		At:         attempt.At,
		DurationMs: int32(attempt.Duration.Milliseconds()),
		Response:   attempt.Response,
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
		return false, err
	}
	defer release()
	held, err = s.queries.RecordWebhookAttempt(ctx, params)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, ErrNoEvent
	}
	return held, err
}

// stop stops the endpoint whose receiver answered that it is gone.
func (s store) stop(ctx context.Context, event Event, target target) (stopped bool, err error) {
	release, err := s.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	n, err := s.queries.StopWebhookEndpoint(ctx, webhookdb.StopWebhookEndpointParams{
		ClientID: event.ClientID, Url: target.URL, EventID: event.ID,
	})
	return n > 0, err
}

func (s store) fail(ctx context.Context, event Event) (failed bool, err error) {
	release, err := s.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	n, err := s.queries.FailWebhookEvent(ctx, webhookdb.FailWebhookEventParams{UserID: event.userID, EventID: event.ID})
	return n > 0, err
}

func (s store) merge(ctx context.Context, window time.Duration, limit int) (connections int, err error) {
	err = postgres.InTurn(ctx, s.pool, postgres.TurnWebhookMerge, func(tx pgx.Tx) error {
		n, err := s.queries.WithTx(tx).MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
			WindowLength: window, MaxConnections: int32(limit),
		})
		connections = int(n)
		return err
	})
	return connections, err
}

func (s store) sweep(ctx context.Context, age time.Duration, limit int) (n int64, err error) {
	return s.queries.SweepWebhookEvents(ctx, webhookdb.SweepWebhookEventsParams{Age: age, MaxRows: int32(limit)})
}

// pending adds to all what is to be delivered: what is in the queue, and what will be.
func (s store) pending(ctx context.Context, all map[string]Stats) error {
	queued, err := s.queries.CountQueued(ctx)
	if err != nil {
		return err
	}
	unqueued, err := s.queries.CountUnqueued(ctx)
	for _, row := range unqueued {
		queued = append(queued, webhookdb.CountQueuedRow(row))
	}
	for _, row := range queued {
		stats := all[row.Name]
		stats.Client = row.Name
		stats.Pending += row.Pending
		stats.Oldest = max(stats.Oldest, time.Duration(row.OldestSeconds*float64(time.Second)))
		all[row.Name] = stats
	}
	return err
}

// queueState asks how many events wait, for how long, and how many were given up lately.
func (s store) queueState(ctx context.Context) (Queue, error) {
	row, err := s.queries.Queue(ctx)
	if err != nil {
		return Queue{}, err
	}
	more, err := s.queries.QueueToBe(ctx)
	if err != nil {
		return Queue{}, err
	}
	row.Waiting, row.Due, row.OldestSeconds = row.Waiting+more.Waiting, row.Due+more.Due, max(row.OldestSeconds, more.OldestSeconds)
	row.Minute, row.Minutes, row.Hour = row.Minute+more.Minute, row.Minutes+more.Minutes, row.Hour+more.Hour
	row.Hours, row.Day = row.Hours+more.Hours, row.Day+more.Day
	failed, err := s.queries.CountFailedOfDay(ctx)
	q := Queue{Waiting: row.Waiting, Due: row.Due, Oldest: time.Duration(row.OldestSeconds * float64(time.Second)), Failed: failed}
	younger := int64(0)
	for _, age := range []Age{
		{time.Minute, row.Minute}, {5 * time.Minute, row.Minutes}, {time.Hour, row.Hour}, {6 * time.Hour, row.Hours},
		{24 * time.Hour, row.Day}, {0, row.Waiting},
	} {
		q.Ages = append(q.Ages, Age{age.UpTo, age.Count - younger})
		younger = age.Count
	}
	return q, err
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
		userID:            row.UserID,
		attemptsBefore:    int(row.AttemptsBefore),
	}
}
