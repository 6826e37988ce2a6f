package webhook

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
	"connect-svc/internal/scope"
)

// The types of events.
const (
	ConnectionRevoked = string(partnerapi.ConnectionRevokedEventTypeConnectionRevoked)
	ActivityUpdated   = string(partnerapi.ActivityUpdatedEventTypeActivityUpdated)
)

// State is the state of an event's delivery.
type State string

// The states of an event. Delivered and failed are final, unless it is replayed.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Failed    State = "failed"
)

// Event is a message to a client, and the state of its delivery.
type Event struct {
	ID                uuid.UUID
	ClientID          uuid.UUID
	Type              string // ConnectionRevoked or ActivityUpdated
	GrantID           uuid.UUID
	ConnectionVersion int64
	Reason            string    // of connection.revoked
	Datasets          scope.Set // of activity.updated: the scopes that read what changed
	FirstDate         time.Time // of activity.updated, midnight UTC
	LastDate          time.Time // of activity.updated, midnight UTC
	CreatedAt         time.Time
	State             State
	AttemptCount      int
	NextAttemptAt     time.Time // of a pending event; in the past: as soon as a sender is free
	Attempts          []Attempt // oldest first; only from [Webhooks.Event] and [Webhooks.EventsOf]

	userID         uuid.UUID // whose connection it is about
	attemptsBefore int       // those that came before the last replay
}

// Attempt is one attempt to deliver an event.
type Attempt struct {
	Number   int           // from 1 on, counted over replays; 0 of a sample
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

// Body is what is sent, the same bytes in each attempt.
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
				GrantId: e.GrantID, ConnectionVersion: version, Datasets: datasets(e.Datasets),
				From: openapi.Date{Time: e.FirstDate}, To: openapi.Date{Time: e.LastDate},
			},
		}
	default:
		return nil, fmt.Errorf("event %s: %w", e.ID, ErrEventType)
	}
	return json.Marshal(body)
}

// datasets are named like the scopes that read them.
func datasets(scopes scope.Set) []partnerapi.Dataset {
	return postgres.Map(scopes.Names(), func(name string) partnerapi.Dataset {
		return partnerapi.Dataset(strings.TrimSuffix(name, ":read"))
	})
}

// Key is the event's place in a list.
func (e Event) Key() page.Key { return page.Key{At: e.CreatedAt, ID: e.ID} }

// Filter narrows a list of events. A zero field does not narrow it, and Limit is required.
type Filter struct {
	ClientID uuid.UUID
	State    State
	After    page.Key
	Limit    int // events in the list at most, 1 or more
	// LatestFirst turns the list of one client around.
	LatestFirst bool
}

// CountBound is up to how many events are counted.
const CountBound = 10_000

// ReplayFailed has the oldest of a client's failed events sent again, at most so many, as [Webhooks.Replay] does. It returns how many,
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
		case !errors.Is(err, ErrNoEvent): // its user's account was deleted since
			return replayed, err
		}
	}
	return replayed, nil
}

// SendSample sends a made-up event of a type to a client's receiver, signed like a real one, and returns the outcome. The
// sample is not in the log, is not sent again, and concerns no connection. It is sent to a stopped endpoint, too. Errors:
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

// maxAge is for how long settled events are kept, from when they were written.
const maxAge = 30 * 24 * time.Hour

var errNoSecret = errors.New("the signing secret cannot be opened with this keyset")

func ids(events []Event) []uuid.UUID {
	return postgres.Map(events, func(event Event) uuid.UUID { return event.ID })
}

// ofClient and ofEvent say whom or what an error is about; nil stays nil.
func ofClient(id uuid.UUID, err error) error {
	return postgres.Wrap("webhook of client "+id.String(), err)
}
func ofEvent(id uuid.UUID, err error) error {
	return postgres.Wrap("webhook event "+id.String(), err)
}
