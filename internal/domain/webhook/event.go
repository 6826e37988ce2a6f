package webhook

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/gen/operatorapi"
	"connect-svc/gen/partnerapi"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"
)

// The types of events: two for clients, and two for the operator.
const (
	ConnectionRevoked    = string(partnerapi.ConnectionRevokedEventTypeConnectionRevoked)
	ActivityUpdated      = string(partnerapi.ActivityUpdatedEventTypeActivityUpdated)
	ConnectionAuthorized = string(operatorapi.ConnectionAuthorizedEventTypeConnectionAuthorized)
	ConnectionEnded      = string(operatorapi.ConnectionEndedEventTypeConnectionEnded)
)

// State is the state of an event's delivery.
type State string

// The states of an event. Delivered and failed are final until the event is replayed.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Failed    State = "failed"
)

// Event is a message to a client or to the operator, and the state of its delivery.
type Event struct {
	ID                uuid.UUID
	ClientID          uuid.UUID // the receiver, which can be Operator
	AboutClientID     uuid.UUID // of an event for the operator: whose connection it is about
	Type              string
	GrantID           uuid.UUID
	ConnectionVersion int64
	Reason            string    // of connection.revoked and connection.ended
	Datasets          scope.Set // of activity.updated: the scopes that read the changed rows; of connection.authorized: those of the connection
	FirstDate         time.Time // of activity.updated, midnight UTC
	LastDate          time.Time // of activity.updated, midnight UTC
	CreatedAt         time.Time
	State             State
	AttemptCount      int
	NextAttemptAt     time.Time // of a pending event; in the past: as soon as a sender is free
	Attempts          []Attempt // the latest, oldest first; only from [Webhooks.Event] and [Webhooks.EventsOf]

	userID         uuid.UUID  // whose connection it is about
	attemptsBefore int        // attempts that are none of its schedule's, such as those before the last replay
	lease          *time.Time // tells its last lease or replay from others
}

// Attempt is one attempt to deliver an event.
type Attempt struct {
	Number   int           // from 1 on, counted over replays; 0 for a sample
	At       time.Time     // when it was sent; its seconds were the webhook-timestamp
	Duration time.Duration // until the response was read, in milliseconds
	Status   int           // of the response; 0: there was none
	Fault    string        // why there was no response, or what was wrong with it, in a few words; empty: nothing
	Response []byte        // the first 8,192 bytes of the body
}

// Success reports whether the receiver accepted the event: a 2xx response, in time.
func (a Attempt) Success() bool { return a.Status/100 == 2 && a.Fault == "" }

// MessageID is the event's webhook-id, the same in each attempt.
func (e Event) MessageID() string { return messageID(e.ID) }

const messagePrefix = "msg_"

func messageID(id uuid.UUID) string { return messagePrefix + hex.EncodeToString(id[:]) }

// ParseEventID reads the id of an event, as a UUID or as its webhook-id. Errors: ErrNoEvent.
func ParseEventID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(strings.TrimPrefix(text, messagePrefix))
	if err != nil {
		return uuid.Nil, ErrNoEvent
	}
	return id, nil
}

// Body returns the bytes that are sent, the same in each attempt.
func (e Event) Body() ([]byte, error) {
	timestamp := e.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	version := strconv.FormatInt(e.ConnectionVersion, 10)
	var body any
	switch e.Type {
	case ConnectionRevoked:
		body = partnerapi.ConnectionRevokedEvent{
			Type:      partnerapi.ConnectionRevokedEventTypeConnectionRevoked,
			Timestamp: timestamp,
			Data: partnerapi.ConnectionRevokedData{
				GrantId: e.GrantID, ConnectionVersion: version, Reason: partnerapi.ConnectionRevokedDataReason(e.Reason),
			},
		}
	case ActivityUpdated:
		body = partnerapi.ActivityUpdatedEvent{
			Type:      partnerapi.ActivityUpdatedEventTypeActivityUpdated,
			Timestamp: timestamp,
			Data: partnerapi.ActivityUpdatedData{
				GrantId: e.GrantID, ConnectionVersion: version, Datasets: postgres.Map(e.Datasets.Names(), func(name string) partnerapi.Dataset {
					return partnerapi.Dataset(strings.TrimSuffix(name, ":read"))
				}),
				From: openapi.Date{Time: e.FirstDate}, To: openapi.Date{Time: e.LastDate},
			},
		}
	case ConnectionAuthorized:
		body = operatorapi.ConnectionAuthorizedEvent{
			Type:      operatorapi.ConnectionAuthorizedEventTypeConnectionAuthorized,
			Timestamp: timestamp,
			Data: operatorapi.ConnectionAuthorizedData{
				UserId: e.userID, ClientId: e.AboutClientID, GrantId: e.GrantID, ConnectionVersion: version,
				Scopes: postgres.Map(e.Datasets.Names(), func(name string) operatorapi.Scope { return operatorapi.Scope(name) }),
			},
		}
	case ConnectionEnded:
		body = operatorapi.ConnectionEndedEvent{
			Type:      operatorapi.ConnectionEndedEventTypeConnectionEnded,
			Timestamp: timestamp,
			Data: operatorapi.ConnectionEndedData{
				UserId: e.userID, ClientId: e.AboutClientID, GrantId: e.GrantID, ConnectionVersion: version, Reason: operatorapi.EndReason(e.Reason),
			},
		}
	default:
		return nil, fmt.Errorf("event %s: %w", e.ID, ErrEventType)
	}
	return json.Marshal(body)
}

// schedule is the delay of each attempt after the previous one (decisions, section 5). After the last one the event has failed.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// after decides the state of an event after its nth attempt since it was written or replayed.
func after(n int, attempt Attempt, retryAfter time.Duration) (state State, delay time.Duration) {
	switch {
	case attempt.Success():
		return Delivered, 0
	case n >= len(schedule):
		return Failed, 0
	}
	delay = schedule[n]
	delay += time.Duration(rand.Float64() * 0.2 * float64(delay)) // up to a fifth longer
	return Pending, max(delay, retryAfter)
}

// record stores an attempt and the new state of its event. A receiver that answered 410 is stopped, and the event fails. If its URL was replaced
// meanwhile, neither happens, and the event goes on to the new one.
func (w *Webhooks) record(ctx context.Context, event Event, target target, attempt Attempt, retryAfter time.Duration) error {
	state, delay := after(event.AttemptCount-event.attemptsBefore+1, attempt, retryAfter)
	if attempt.Status == http.StatusGone {
		stopped, err := inSlot(ctx, w, w.queries.StopWebhookEndpoint, webhookdb.StopWebhookEndpointParams{
			ClientID: event.ClientID, Url: target.URL, EventID: event.ID,
		})
		if err != nil {
			return err
		}
		if stopped > 0 {
			w.logger.Warn("a webhook was stopped: its receiver answered 410", "client_id", event.ClientID)
		}
		endpoint, err := w.Endpoint(ctx, event.ClientID)
		if err != nil && !errors.Is(err, ErrNoEndpoint) { // it is not known whether the URL was replaced: the event is due again when its lease ends
			return err
		}
		if err != nil || !endpoint.StoppedAt.IsZero() {
			state = Failed
		}
	}
	// kept is false if the event was leased again or replayed since.
	kept, err := inSlot(ctx, w, w.queries.RecordWebhookAttempt, webhookdb.RecordWebhookAttemptParams{
		UserID:     event.userID,
		EventID:    event.ID,
		Lease:      event.lease,
		State:      string(state),
		DueAt:      attempt.At.Add(attempt.Duration + delay), // by the database's clock, as attempt.At is
		At:         attempt.At,
		DurationMs: int32(attempt.Duration.Milliseconds()),
		Status:     postgres.Null(int32(attempt.Status)),
		Fault:      postgres.Null(attempt.Fault),
		Response:   attempt.Response,
	})
	if err != nil {
		return postgres.NoRowsAs(err, nil) // no row: the event was swept or deleted
	}
	if state == Pending && delay < time.Minute {
		time.AfterFunc(delay, w.Wake) // later attempts may be a second late
	}
	failed := state == Failed && kept
	w.count(target.clientName, func(s *Stats) {
		if attempt.Success() {
			s.Delivered++
		} else {
			s.FailedAttempts++
		}
		if failed {
			s.Failed++
		}
	})
	if attempt.Success() || failed {
		w.settled(event.ClientID, attempt.Success())
	}
	if failed {
		w.logger.Warn("an event could not be delivered",
			"client_id", event.ClientID, "event_id", event.ID, "status", attempt.Status, "fault", attempt.Fault)
	}
	return nil
}

// giveUp fails an event whose endpoint was stopped or removed. If the endpoint is back, the event is due again when its lease ends. It counts
// as given up after the receiver's 410 only: who removes a webhook or offboards a client wants no more events.
func (w *Webhooks) giveUp(ctx context.Context, event Event, target target) error {
	n, err := inSlot(ctx, w, w.queries.FailWebhookEvent, webhookdb.FailWebhookEventParams{UserID: event.userID, EventID: event.ID})
	if n > 0 && !target.StoppedAt.IsZero() && target.ClientStatus != "offboarded" {
		w.count(target.clientName, func(s *Stats) { s.Failed++ })
		w.settled(event.ClientID, false)
	}
	return err
}

const (
	// mergeInterval is the pause after a merge. If more changes are due, it is mergePause times as long as the merge took, so that those of
	// a large import are spread.
	mergeInterval = time.Second
	mergePause    = 2
	// mergeBatch is the number of connections whose changes become events at one time.
	mergeBatch = 500
)

// mergeChanges merges changes when a poll has found some whose window is over.
func (w *Webhooks) mergeChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		n, began := 0, time.Now()
		err := work.Try(func() (err error) {
			n, err = w.merge(ctx)
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			w.logger.Error("changes of activity could not be merged", "cause", err)
		case n > 0:
			w.Wake()
		}
		pause := mergeInterval
		if n >= mergeBatch {
			pause = min(pause, mergePause*time.Since(began))
		}
		if !work.Pause(ctx, pause) {
			return
		}
		select {
		case <-w.changed: // by a poll before the end of this merge; the next poll knows better
		default:
		}
		if n >= mergeBatch {
			w.changed.Send()
		}
	}
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns the number of connections.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	rows, err := w.look(ctx, nil, 0, 4*mergeBatch)
	if err != nil {
		return 0, err
	}
	type connection struct{ user, client uuid.UUID }
	taken := map[connection]bool{}
	var merging []webhookdb.LookForWorkRow
	for _, row := range rows {
		if c := (connection{row.UserID, row.ClientID}); len(taken) < mergeBatch && !taken[c] {
			taken[c] = true
			merging = append(merging, row)
		}
	}
	var merged atomic.Int64
	err = inParts(merging, func(users, _ []uuid.UUID) error {
		n, err := w.queries.MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
			UserIds: users, WindowLength: w.window, ReplicaLag: w.lag,
		})
		merged.Add(n)
		return err
	})
	return int(merged.Load()), err
}
