package audit

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/page"
)

// Event is one entry of the log.
type Event struct {
	ID       int64 // sorts events of one time, and tells one from another of its user or client
	At       time.Time
	Actor    string    // user, client, system, operator, or the name of an operator's token
	Action   string    // what happened to what: connection.revoked
	ClientID uuid.UUID // uuid.Nil where no client is concerned
	UserID   uuid.UUID // uuid.Nil where no user is concerned; stays when the user is deleted
	// ConnectionVersion is the version after the act, 0 where no connection is concerned.
	ConnectionVersion int64
	Detail            json.RawMessage // an object
}

// Key is the event's place in the log.
func (e Event) Key() page.Key { return page.Key{At: e.At, N: e.ID} }

// Filter narrows a list by the fields that are not zero.
type Filter struct {
	ClientID uuid.UUID
	UserID   uuid.UUID
	Since    time.Time // this instant and later
	Until    time.Time // before this instant
	Actor    string
	Action   string

	// Itself narrows a search to what happened to the client itself, and not to its connections.
	Itself bool
}
