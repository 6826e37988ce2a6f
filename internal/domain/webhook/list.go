package webhook

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
)

// Key returns the event's place in a list.
func (e Event) Key() page.Key { return page.Key{At: e.CreatedAt, ID: e.ID} }

// Filter narrows a list of events. A zero field does not narrow it, and Limit is required.
type Filter struct {
	ClientID uuid.UUID
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
			ClientID: filter.ClientID, State: state, BeforeTime: before.At, BeforeID: before.ID, MaxRows: int32(filter.Limit),
		})
	} else {
		rows, err = w.lists.ListWebhookEvents(ctx, webhookdb.ListWebhookEventsParams{
			ClientID: postgres.Null(filter.ClientID), State: state,
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

// Event returns an event with its attempts. Errors: ErrNoEvent.
func (w *Webhooks) Event(ctx context.Context, id uuid.UUID) (Event, error) {
	row, err := w.queries.GetWebhookEvent(ctx, id)
	if err != nil {
		return Event{}, ofEvent(id, postgres.NoRowsAs(err, ErrNoEvent))
	}
	found, err := w.withAttempts(ctx, row.UserID, []webhookdb.WebhookEvent{row}, math.MaxInt32, true)
	if err != nil {
		return Event{}, ofEvent(id, err)
	}
	return found[0], nil
}

// withAttempts makes events of a user's rows, each with up to most of its latest attempts.
func (w *Webhooks) withAttempts(
	ctx context.Context, userID uuid.UUID, rows []webhookdb.WebhookEvent, most int32, responses bool,
) ([]Event, error) {
	events := postgres.Map(rows, fromRow)
	attempts, err := w.queries.ListWebhookAttempts(ctx, webhookdb.ListWebhookAttemptsParams{
		UserID: userID, EventIds: postgres.Map(events, func(event Event) uuid.UUID { return event.ID }), OfEach: most, Responses: responses,
	})
	of := map[uuid.UUID][]Attempt{}
	for _, row := range attempts {
		of[row.EventID] = append(of[row.EventID], Attempt{
			Number: int(row.Attempt), At: row.At, Duration: time.Duration(row.DurationMs) * time.Millisecond,
			Status: int(postgres.Value(row.Status)), Fault: postgres.Value(row.Fault), Response: row.Response,
		})
	}
	for i, event := range events {
		events[i].Attempts = of[event.ID]
	}
	return events, err
}

func fromRow(row webhookdb.WebhookEvent) Event {
	event := Event{
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
	if event.State == Pending {
		event.NextAttemptAt = row.DueAt
		if row.DueAt.Before(row.CreatedAt) { // it is new
			event.NextAttemptAt = row.CreatedAt
		}
	}
	return event
}
