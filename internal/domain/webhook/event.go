package webhook

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
)

// The types of events.
const (
	ConnectionRevoked = string(partnerapi.ConnectionRevokedEventTypeConnectionRevoked)
	ActivityUpdated   = string(partnerapi.ActivityUpdatedEventTypeActivityUpdated)
)

// State is the state of an event's delivery.
type State string

// The states of an event. Delivered and failed are final until the event is replayed.
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
	Datasets          scope.Set // of activity.updated: the scopes that read the changed rows
	FirstDate         time.Time // of activity.updated, midnight UTC
	LastDate          time.Time // of activity.updated, midnight UTC
	CreatedAt         time.Time
	State             State
	AttemptCount      int
	NextAttemptAt     time.Time // of a pending event; in the past: as soon as a sender is free
	Attempts          []Attempt // oldest first; only from [Webhooks.Event] and [Webhooks.EventsOf]

	userID         uuid.UUID // whose connection it is about
	attemptsBefore int       // attempts before the last replay
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
				GrantId: e.GrantID, ConnectionVersion: version, Datasets: datasets(e.Datasets),
				From: openapi.Date{Time: e.FirstDate}, To: openapi.Date{Time: e.LastDate},
			},
		}
	default:
		return nil, fmt.Errorf("event %s: %w", e.ID, ErrEventType)
	}
	return json.Marshal(body)
}

// datasets returns the datasets that scopes read. They have the names of their scopes.
func datasets(scopes scope.Set) []partnerapi.Dataset {
	return postgres.Map(scopes.Names(), func(name string) partnerapi.Dataset {
		return partnerapi.Dataset(strings.TrimSuffix(name, ":read"))
	})
}
