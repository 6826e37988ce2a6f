package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Key returns the event's place in a list.
func (e Event) Key() page.Key { return page.Key{At: e.CreatedAt, ID: e.ID} }

// Filter narrows a list of events. A zero field does not narrow it, and Limit is required.
type Filter struct {
	ClientID uuid.UUID
	UserID   uuid.UUID // of the connection
	GrantID  uuid.UUID // of the connection; not of LatestFirst
	State    State
	After    page.Key
	Limit    int // events in the list at most, 1 or more
	// LatestFirst reverses the list of one client.
	LatestFirst bool
}

// Events lists events, without their attempts: the oldest first, unless the filter says otherwise.
func (w *Webhooks) Events(ctx context.Context, filter Filter) ([]Event, error) {
	var rows []webhookdb.WebhookEvent
	var err error
	state := postgres.Null(string(filter.State))
	if filter.LatestFirst {
		before := filter.After.OrNewest()
		rows, err = w.lists.ListLatestWebhookEvents(ctx, webhookdb.ListLatestWebhookEventsParams{
			ClientID: filter.ClientID, UserID: postgres.Null(filter.UserID), State: state, BeforeTime: before.At, BeforeID: before.ID, MaxRows: int32(filter.Limit),
		})
	} else {
		rows, err = w.lists.ListWebhookEvents(ctx, webhookdb.ListWebhookEventsParams{
			ClientID: postgres.Null(filter.ClientID), UserID: postgres.Null(filter.UserID), GrantID: postgres.Null(filter.GrantID), State: state,
			AfterTime: filter.After.At, AfterID: filter.After.ID, MaxRows: int32(filter.Limit),
		})
	}
	return postgres.Map(rows, fromRow), postgres.Wrap("webhook events", err)
}

// EventsOf lists the events of a user's connection with a client, newest first: at most limit of them, those before a key, whose
// zero value is after the newest. Each has its last ten attempts, without the responses.
func (w *Webhooks) EventsOf(ctx context.Context, userID, clientID uuid.UUID, before page.Key, limit int) (events []Event, err error) {
	before = before.OrNewest()
	rows, err := w.queries.ListEventsOfConnection(ctx, webhookdb.ListEventsOfConnectionParams{
		UserID: userID, ClientID: clientID, BeforeTime: before.At, BeforeID: before.ID, MaxRows: int32(limit),
	})
	if err == nil {
		events, err = w.withAttempts(ctx, userID, rows, 10, false)
	}
	return events, postgres.Wrap("webhook events of a connection", err)
}

// mostAttempts bounds the attempts of an event that are read. It has more each time that it is replayed, which a partner's people do as they like.
const mostAttempts = 50

// Event returns an event with its latest attempts. Errors: ErrNoEvent.
func (w *Webhooks) Event(ctx context.Context, id uuid.UUID) (Event, error) {
	row, err := w.queries.GetWebhookEvent(ctx, id)
	if err != nil {
		return Event{}, ofEvent(id, postgres.NoRowsAs(err, ErrNoEvent))
	}
	events, err := w.withAttempts(ctx, row.UserID, []webhookdb.WebhookEvent{row}, mostAttempts, true)
	if err != nil {
		return Event{}, ofEvent(id, err)
	}
	return events[0], nil
}

// withAttempts makes events of a user's rows, each with up to most of its latest attempts.
func (w *Webhooks) withAttempts(ctx context.Context, userID uuid.UUID, rows []webhookdb.WebhookEvent, most int32, responses bool) ([]Event, error) {
	events := postgres.Map(rows, fromRow)
	attempts, err := w.queries.ListWebhookAttempts(ctx, webhookdb.ListWebhookAttemptsParams{
		UserID: userID, EventIds: postgres.Map(events, func(event Event) uuid.UUID { return event.ID }), OfEach: most, Responses: responses,
	})
	byEvent := map[uuid.UUID][]Attempt{}
	for _, row := range attempts {
		byEvent[row.EventID] = append(byEvent[row.EventID], Attempt{
			Number: int(row.Attempt), At: row.At, Duration: time.Duration(row.DurationMs) * time.Millisecond,
			Status: int(postgres.Value(row.Status)), Fault: postgres.Value(row.Fault), Response: row.Response,
		})
	}
	for i, event := range events {
		events[i].Attempts = byEvent[event.ID]
	}
	return events, err
}

func fromRow(row webhookdb.WebhookEvent) Event {
	event := Event{
		ID:                row.EventID,
		ClientID:          row.ClientID,
		AboutClientID:     postgres.Value(row.AboutClientID),
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
		lease:             row.LeasedUntil,
	}
	if event.State == Pending {
		event.NextAttemptAt = cmp.Or(postgres.Value(row.DueAt), row.CreatedAt)
	}
	return event
}

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

// Stats describes the delivery to a client.
type Stats struct {
	Client  string        // its name; clients of one name are one
	Pending int64         // events in the database that are to be delivered, as far as they are among the million oldest of all clients
	Oldest  time.Duration // age of the oldest of them

	// Counted by this server since it started:
	Delivered      uint64 // events that their receiver accepted
	Failed         uint64 // events that were given up
	FailedAttempts uint64
}

// count changes this server's counts of a client.
func (w *Webhooks) count(client string, change func(*Stats)) {
	w.statsMu.Lock()
	defer w.statsMu.Unlock()
	s := w.stats[client]
	s.Client = client
	change(&s)
	w.stats[client] = s
}

// Stats describes delivery for the metrics, sorted by name: for each client that has a webhook or pending events, or that this server sent
// to. Counts begin at 0: otherwise the first failure would not be an increase.
func (w *Webhooks) Stats(ctx context.Context) ([]Stats, error) {
	w.statsMu.Lock()
	all := maps.Clone(w.stats)
	w.statsMu.Unlock()
	receivers, err := w.queries.ListReceivers(ctx)
	if err != nil {
		return nil, postgres.Wrap("webhook statistics", err)
	}
	for _, name := range receivers {
		stats := all[name]
		stats.Client = name
		all[name] = stats
	}
	pending, err := w.queries.CountPendingByClient(ctx, w.counted)
	for _, row := range pending {
		stats := all[row.Name]
		stats.Client = row.Name
		stats.Pending, stats.Oldest = row.Pending, max(0, time.Duration(row.OldestSeconds*float64(time.Second)))
		all[row.Name] = stats
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b Stats) int { return strings.Compare(a.Client, b.Client) })
	return sorted, postgres.Wrap("webhook statistics", err)
}

// Queue describes the delivery to all clients by all servers.
type Queue struct {
	Waiting int64         // events that are to be delivered; a million stands for that many or more
	Due     int64         // those of them that are to be sent now, and that no server is sending
	Oldest  time.Duration // age of the oldest that waits; 0 if none waits
	Failed  int64         // given up within the last 24 hours; 10,000 stands for that many or more
	Ages    []Age         // of those that wait, youngest first
}

// Age counts the events that have waited for up to UpTo, and longer than those of the age before. An UpTo of 0 is any time.
type Age struct {
	UpTo  time.Duration
	Count int64
}

// Queue asks the database for the state of delivery.
func (w *Webhooks) Queue(ctx context.Context) (Queue, error) {
	row, err := w.queries.Backlog(ctx, w.counted)
	if err != nil {
		return Queue{}, fmt.Errorf("webhook queue: %w", err)
	}
	failed, err := w.queries.CountFailedOfDay(ctx)
	q := Queue{
		Waiting: row.Waiting, Due: row.Due, Failed: failed, Oldest: time.Duration(row.OldestSeconds * float64(time.Second)),
	}
	younger := int64(0)
	for _, age := range []Age{
		{time.Minute, row.Under1m}, {5 * time.Minute, row.Under5m}, {time.Hour, row.Under1h}, {6 * time.Hour, row.Under6h},
		{24 * time.Hour, row.Under24h}, {0, q.Waiting},
	} {
		q.Ages = append(q.Ages, Age{age.UpTo, age.Count - younger})
		younger = age.Count
	}
	return q, postgres.Wrap("webhook queue", err)
}

// CountBound is the number up to which [Webhooks.Waiting] counts.
const CountBound = 10_000

// Waiting counts a client's events that wait to be sent, and those that failed: each up to [CountBound], and one more if there are
// more.
func (w *Webhooks) Waiting(ctx context.Context, clientID uuid.UUID) (waiting, failed int, err error) {
	pending, err := w.queries.CountPendingWebhookEvents(ctx, webhookdb.CountPendingWebhookEventsParams{ClientID: clientID, AtMost: CountBound + 1})
	if err != nil {
		return 0, 0, ofClient(clientID, err)
	}
	given, err := w.queries.CountFailedWebhookEvents(ctx, webhookdb.CountFailedWebhookEventsParams{ClientID: clientID, AtMost: CountBound + 1})
	return int(pending), int(given), ofClient(clientID, err)
}
