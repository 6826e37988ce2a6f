package webhook

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
)

// Event is a ConnectionRevoked, an ActivityUpdated or an Unknown.
type Event interface {
	// WebhookID identifies the event, and is the same in every attempt to deliver it: keep it for a few days, and ignore
	// an event that you have seen.
	WebhookID() string
	isEvent()
}

// ConnectionRevoked says that the credentials of a connection stopped working.
type ConnectionRevoked struct {
	ID
	// Version is Data.ConnectionVersion as a number. Ignore an event whose version is below the one that you hold.
	Version int64
	connectsdk.ConnectionRevokedEvent
}

// ActivityUpdated says that activity changed which a connection may read.
type ActivityUpdated struct {
	ID
	// Version is Data.ConnectionVersion as a number. Ignore an event whose version is below the one that you hold.
	Version int64
	connectsdk.ActivityUpdatedEvent
}

// Unknown is a genuine event of a type that is newer than this code. Respond as to any other and ignore it.
type Unknown struct {
	ID
	Type string
}

// ID is the webhook-id of an event.
type ID string

// WebhookID is the webhook-id.
func (id ID) WebhookID() string { return string(id) }

func (ConnectionRevoked) isEvent() {}
func (ActivityUpdated) isEvent()   {}
func (Unknown) isEvent()           {}

// Parse reads the body of a call that was verified before, such as one that waited in your queue. It ignores unknown fields,
// since the contract grows.
func Parse(id string, body []byte) (Event, error) {
	var envelope struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, notEvent("%w", err)
	}
	switch envelope.Type {
	case "":
		return nil, notEvent("it has no type")
	case string(connectsdk.ConnectionRevokedEventTypeConnectionRevoked):
		event := ConnectionRevoked{ID: ID(id)}
		err := json.Unmarshal(body, &event.ConnectionRevokedEvent)
		whole := !event.Timestamp.IsZero() && event.Data.GrantId != uuid.Nil && event.Data.Reason != ""
		if event.Version, err = check(err, whole, event.Data.ConnectionVersion); err != nil {
			return nil, err
		}
		return event, nil
	case string(connectsdk.ActivityUpdatedEventTypeActivityUpdated):
		event := ActivityUpdated{ID: ID(id)}
		err := json.Unmarshal(body, &event.ActivityUpdatedEvent)
		whole := !event.Timestamp.IsZero() && event.Data.GrantId != uuid.Nil && len(event.Data.Datasets) > 0 &&
			!event.Data.From.IsZero() && !event.Data.To.IsZero()
		if event.Version, err = check(err, whole, event.Data.ConnectionVersion); err != nil {
			return nil, err
		}
		return event, nil
	default:
		return Unknown{ID: ID(id), Type: envelope.Type}, nil
	}
}

// check validates what all events have in common, and returns the version as a number.
func check(err error, whole bool, version string) (int64, error) {
	if err != nil {
		return 0, notEvent("%w", err)
	}
	if !whole {
		return 0, notEvent("a field is missing")
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n < 1 {
		return 0, notEvent("connection_version %q is not a number from 1 on", version)
	}
	return n, nil
}

func notEvent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotEvent, fmt.Errorf(format, args...))
}
