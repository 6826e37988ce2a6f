package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/actor"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
)

// store is endpoints, events and attempts as rows. Each method of Webhooks in this file is one act on them.
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
func (w *Webhooks) slot(ctx context.Context) (release func(), err error) {
	select {
	case w.slots <- struct{}{}:
		return func() { <-w.slots }, nil
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
func (w *Webhooks) setEndpoint(ctx context.Context, clientID uuid.UUID, url, host, secret string) (created bool, err error) {
	for range 2 { // the second time when somebody made it in between
		n, err := w.queries.MoveWebhookEndpoint(ctx, webhookdb.MoveWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: host, Actor: actor.Of(ctx),
		})
		if err != nil || n > 0 {
			return false, err
		}
		n, err = w.queries.CreateWebhookEndpoint(ctx, webhookdb.CreateWebhookEndpointParams{
			ClientID: clientID, Url: url, Host: host, Secret: secret, Actor: actor.Of(ctx),
		})
		if err != nil || n > 0 {
			return true, err
		}
	}
	exists, err := w.queries.ClientExists(ctx, clientID)
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

// RotateSecret makes a new signing secret and returns it. The previous one signs beside it for 24 hours. Errors:
// ErrNoEndpoint.
func (w *Webhooks) RotateSecret(ctx context.Context, clientID uuid.UUID) (string, error) {
	return w.rotateSecret(ctx, clientID, nil)
}

// RotateSeenSecret is RotateSecret for a caller who has seen [Endpoint.RotatingUntil]. Where another secret signs beside the newest
// by now, it replaces nothing. Error also: ErrReplacedSince.
func (w *Webhooks) RotateSeenSecret(ctx context.Context, clientID uuid.UUID, rotatingUntil time.Time) (string, error) {
	return w.rotateSecret(ctx, clientID, &rotatingUntil)
}

func (w *Webhooks) rotateSecret(ctx context.Context, clientID uuid.UUID, seenUntil *time.Time) (string, error) {
	var key [32]byte
	rand.Read(key[:])
	secret, sealed, err := w.secretOf(key)
	if err != nil {
		return "", err
	}
	n, err := w.queries.RotateWebhookSecret(ctx, webhookdb.RotateWebhookSecretParams{
		ClientID: clientID, Secret: sealed, Overlap: rotationOverlap, SeenUntil: seenUntil, Actor: actor.Of(ctx),
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

// RemoveEndpoint ends a client's webhook: no more events are written for it, and pending events are not sent. The log of
// its events stays. Errors: ErrNoEndpoint.
func (w *Webhooks) RemoveEndpoint(ctx context.Context, clientID uuid.UUID) error {
	n, err := w.queries.RemoveWebhookEndpoint(ctx, webhookdb.RemoveWebhookEndpointParams{ClientID: clientID, Actor: actor.Of(ctx)})
	if err == nil && n == 0 {
		err = ErrNoEndpoint
	}
	return ofClient(clientID, err)
}

func (w *Webhooks) target(ctx context.Context, clientID uuid.UUID) (target, error) {
	row, err := w.queries.GetWebhookEndpoint(ctx, clientID)
	found := target{
		Endpoint: Endpoint{ClientID: row.ClientID, URL: row.Url, CreatedAt: row.CreatedAt, StoppedAt: postgres.Value(row.StoppedAt)},
		secret:   row.Secret,
		now:      row.Now,
	}
	if row.Rotating {
		found.previousSecret, found.RotatingUntil = postgres.Value(row.PreviousSecret), postgres.Value(row.PreviousUntil)
	}
	return found, ofClient(clientID, postgres.NoRowsAs(err, ErrNoEndpoint))
}

// Events lists events, without their attempts: the oldest first, unless the filter says otherwise.
func (w *Webhooks) Events(ctx context.Context, filter Filter) (events []Event, err error) {
	var rows []webhookdb.WebhookEvent
	state := postgres.Null(string(filter.State))
	if filter.LatestFirst {
		before := filter.After.OrNewest()
		rows, err = w.lists.ListLatestWebhookEvents(ctx, webhookdb.ListLatestWebhookEventsParams{
			ClientID: filter.ClientID, State: state, BeforeTime: before.At, BeforeID: before.ID, MaxRows: int32(filter.Limit),
		})
	} else {
		rows, err = w.lists.ListWebhookEvents(ctx, webhookdb.ListWebhookEventsParams{
			ClientID: postgres.Null(filter.ClientID), State: state,
			AfterTime: filter.After.At, AfterID: filter.After.ID, MaxRows: int32(filter.Limit),
		})
	}
	if err == nil {
		events, err = w.withDue(ctx, rows)
	}
	return events, postgres.Wrap("webhook events", err)
}

// Waiting counts a client's events that wait to be sent, and those that failed: each up to [CountBound], and one more where there are
// more.
func (w *Webhooks) Waiting(ctx context.Context, clientID uuid.UUID) (waiting, failed int, err error) {
	queued, err := w.queries.CountQueuedWebhookEvents(ctx, webhookdb.CountQueuedWebhookEventsParams{ClientID: clientID, AtMost: CountBound + 1})
	if err != nil {
		return 0, 0, ofClient(clientID, err)
	}
	given, err := w.queries.CountFailedWebhookEvents(ctx, webhookdb.CountFailedWebhookEventsParams{ClientID: clientID, AtMost: CountBound + 1})
	return int(queued), int(given), ofClient(clientID, err)
}

// EventsOf lists the events of a user's connection with a client, newest first: at most limit of them, those before a position, whose
// zero value is after the newest. Each has its last ten attempts, without the responses.
func (w *Webhooks) EventsOf(ctx context.Context, userID, clientID uuid.UUID, before page.Key, limit int) ([]Event, error) {
	events, err := w.eventsOf(ctx, userID, clientID, before.OrNewest(), limit)
	return events, postgres.Wrap("webhook events of a connection", err)
}

func (w *Webhooks) eventsOf(ctx context.Context, userID, clientID uuid.UUID, before page.Key, limit int) ([]Event, error) {
	rows, err := w.queries.ListEventsOfConnection(ctx, webhookdb.ListEventsOfConnectionParams{
		UserID: userID, ClientID: clientID, BeforeTime: before.At, BeforeID: before.ID, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	events, err := w.withDue(ctx, rows)
	if err != nil {
		return nil, err
	}
	attempts, err := w.queries.ListLatestAttempts(ctx, webhookdb.ListLatestAttemptsParams{UserID: userID, EventIds: ids(events)})
	if err != nil {
		return nil, err
	}
	of := map[uuid.UUID][]Attempt{}
	for _, row := range attempts {
		of[row.EventID] = append(of[row.EventID], attemptOf(row.Attempt, row.At, row.DurationMs, row.Status, row.Fault))
	}
	for i, event := range events {
		events[i].Attempts = of[event.ID]
	}
	return events, nil
}

// withDue makes events of rows, and says when those are due that are pending: as soon as they are in the queue, if they are not there
// yet.
func (w *Webhooks) withDue(ctx context.Context, found []webhookdb.WebhookEvent) ([]Event, error) {
	events := postgres.Map(found, fromRow)
	rows, err := w.queries.ListQueued(ctx, ids(events))
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

// Event is an event with its attempts. Errors: ErrNoEvent.
func (w *Webhooks) Event(ctx context.Context, id uuid.UUID) (Event, error) {
	event, err := w.event(ctx, id)
	return event, ofEvent(id, err)
}

func (w *Webhooks) event(ctx context.Context, id uuid.UUID) (Event, error) {
	row, err := w.queries.GetWebhookEvent(ctx, id)
	if err != nil {
		return Event{}, postgres.NoRowsAs(err, ErrNoEvent)
	}
	found, err := w.withDue(ctx, []webhookdb.WebhookEvent{row})
	if err != nil {
		return Event{}, err
	}
	event := found[0]
	attempts, err := w.queries.ListWebhookAttempts(ctx, webhookdb.ListWebhookAttemptsParams{UserID: row.UserID, EventID: id})
	for i, row := range attempts {
		event.Attempts = append(event.Attempts, attemptOf(row.Attempt, row.At, row.DurationMs, row.Status, row.Fault))
		event.Attempts[i].Response = row.Response
	}
	return event, err
}

// Replay has an event sent at once, with the same webhook-id, whatever its state; its schedule of attempts begins again.
// Errors: ErrNoEvent, ErrNoEndpoint, ErrStopped.
func (w *Webhooks) Replay(ctx context.Context, id uuid.UUID) error {
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
		if err := queries.ReplayWebhookEvent(ctx, webhookdb.ReplayWebhookEventParams{
			UserID: row.UserID, EventID: id, Actor: actor.Of(ctx),
		}); err != nil {
			return err
		}
		return queries.QueueReplay(ctx, webhookdb.QueueReplayParams{
			EventID: id, UserID: row.UserID, ClientID: row.ClientID, CreatedAt: row.CreatedAt,
		})
	}))
}

// queue puts up to limit events into the queue that were written since, and returns how many.
func (w *Webhooks) queue(ctx context.Context, limit int) (n int, err error) {
	err = postgres.InTurn(ctx, w.pool, postgres.TurnWebhookQueue, func(tx pgx.Tx) error {
		rows, err := w.queries.WithTx(tx).QueueWebhookEvents(ctx, int32(limit))
		n = int(rows)
		return err
	})
	return n, err
}

// claim leases up to limit events that are due. room is for how many of each client there is room; of a client that it does
// not have, as many as are sent at the same time.
func (w *Webhooks) claim(ctx context.Context, room map[uuid.UUID]int, limit int) ([]claimed, error) {
	roomJSON, err := json.Marshal(room)
	if err != nil {
		return nil, err
	}
	leased, err := w.queries.ClaimWebhookEvents(ctx, webhookdb.ClaimWebhookEventsParams{
		Lease: w.limits.lease(), Room: roomJSON, MaxEvents: int32(limit),
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
	targets, err := w.targets(ctx, clients)
	if err != nil {
		return nil, err
	}
	rows, err := w.queries.ListClaimed(ctx, params)
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
		return list, w.queries.Unqueue(ctx, slices.Collect(maps.Keys(missing)))
	}
	return list, nil
}

// targets are where the events of clients go. The URL is empty where there is no endpoint, or it was stopped.
func (w *Webhooks) targets(ctx context.Context, clients []uuid.UUID) (map[uuid.UUID]target, error) {
	rows, err := w.queries.ListWebhookTargets(ctx, clients)
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

// recordAttempt writes an attempt and the event's new state. held says that no other server had recorded an attempt since the event
// was leased. Errors: ErrNoEvent.
func (w *Webhooks) recordAttempt(ctx context.Context, event Event, attempt Attempt, state State, delay time.Duration) (held bool, err error) {
	release, err := w.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	held, err = w.queries.RecordWebhookAttempt(ctx, webhookdb.RecordWebhookAttemptParams{
		UserID:     event.userID,
		EventID:    event.ID,
		Attempts:   int32(event.AttemptCount),
		State:      string(state),
		Delay:      delay,
		At:         attempt.At,
		DurationMs: int32(attempt.Duration.Milliseconds()),
		Status:     postgres.Null(int32(attempt.Status)),
		Fault:      postgres.Null(attempt.Fault),
		Response:   attempt.Response,
	})
	return held, postgres.NoRowsAs(err, ErrNoEvent)
}

// stop stops the endpoint whose receiver answered that it is gone.
func (w *Webhooks) stop(ctx context.Context, event Event, target target) (stopped bool, err error) {
	release, err := w.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	n, err := w.queries.StopWebhookEndpoint(ctx, webhookdb.StopWebhookEndpointParams{
		ClientID: event.ClientID, Url: target.URL, EventID: event.ID,
	})
	return n > 0, err
}

// giveUp settles an event whose endpoint was stopped or removed. If the endpoint is back, the event is due again when
// its lease is over.
func (w *Webhooks) giveUp(ctx context.Context, event Event, target target) error {
	release, err := w.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	n, err := w.queries.FailWebhookEvent(ctx, webhookdb.FailWebhookEventParams{UserID: event.userID, EventID: event.ID})
	if n > 0 {
		w.count(target.clientName, func(s *Stats) { s.Failed++ })
	}
	return err
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns how many connections that were.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	err = postgres.InTurn(ctx, w.pool, postgres.TurnWebhookMerge, func(tx pgx.Tx) error {
		n, err := w.queries.WithTx(tx).MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
			WindowLength: w.window, MaxConnections: mergeBatch,
		})
		connections = int(n)
		return err
	})
	return connections, err
}

// Sweep deletes the events older than 30 days that are not pending, with their attempts.
func (w *Webhooks) Sweep(ctx context.Context) error {
	const batch = 2000
	for {
		n, err := w.queries.SweepWebhookEvents(ctx, webhookdb.SweepWebhookEventsParams{Age: maxAge, MaxRows: batch})
		if err != nil || n < batch {
			return postgres.Wrap("sweep webhook events", err)
		}
	}
}

// Stats is how delivery goes, for the metrics, sorted by name: for each client that has events pending or that this
// server sent to. What is pending is in the queue, or will be.
func (w *Webhooks) Stats(ctx context.Context) ([]Stats, error) {
	w.statsMu.Lock()
	all := maps.Clone(w.stats)
	w.statsMu.Unlock()
	queued, err := w.queries.CountQueued(ctx)
	if err != nil {
		return nil, fmt.Errorf("webhook statistics: %w", err)
	}
	unqueued, err := w.queries.CountUnqueued(ctx)
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
	sorted := slices.SortedFunc(maps.Values(all), func(a, b Stats) int { return strings.Compare(a.Client, b.Client) })
	return sorted, postgres.Wrap("webhook statistics", err)
}

// Queue asks the database how delivery goes.
func (w *Webhooks) Queue(ctx context.Context) (Queue, error) {
	row, err := w.queries.Queue(ctx)
	if err != nil {
		return Queue{}, fmt.Errorf("webhook queue: %w", err)
	}
	more, err := w.queries.QueueToBe(ctx)
	if err != nil {
		return Queue{}, fmt.Errorf("webhook queue: %w", err)
	}
	row.Waiting, row.Due, row.OldestSeconds = row.Waiting+more.Waiting, row.Due+more.Due, max(row.OldestSeconds, more.OldestSeconds)
	row.Minute, row.Minutes, row.Hour = row.Minute+more.Minute, row.Minutes+more.Minutes, row.Hour+more.Hour
	row.Hours, row.Day = row.Hours+more.Hours, row.Day+more.Day
	failed, err := w.queries.CountFailedOfDay(ctx)
	q := Queue{Waiting: row.Waiting, Due: row.Due, Oldest: time.Duration(row.OldestSeconds * float64(time.Second)), Failed: failed}
	younger := int64(0)
	for _, age := range []Age{
		{time.Minute, row.Minute}, {5 * time.Minute, row.Minutes}, {time.Hour, row.Hour}, {6 * time.Hour, row.Hours},
		{24 * time.Hour, row.Day}, {0, row.Waiting},
	} {
		q.Ages = append(q.Ages, Age{age.UpTo, age.Count - younger})
		younger = age.Count
	}
	return q, postgres.Wrap("webhook queue", err)
}

func attemptOf(number int32, at time.Time, milliseconds int32, status *int32, fault *string) Attempt {
	return Attempt{
		Number: int(number), At: at, Duration: time.Duration(milliseconds) * time.Millisecond,
		Status: int(postgres.Value(status)), Fault: postgres.Value(fault),
	}
}

func fromRow(row webhookdb.WebhookEvent) Event {
	return Event{
		ID:                row.EventID,
		ClientID:          row.ClientID,
		Type:              row.Type,
		GrantID:           row.GrantID,
		ConnectionVersion: row.ConnectionVersion,
		Reason:            postgres.Value(row.Reason),
		Datasets:          postgres.Value(row.Datasets),
		FirstDate:         postgres.Value(row.FirstDate),
		LastDate:          postgres.Value(row.LastDate),
		CreatedAt:         row.CreatedAt,
		State:             State(row.State),
		AttemptCount:      int(row.Attempts),
		userID:            row.UserID,
		attemptsBefore:    int(row.AttemptsBefore),
	}
}
