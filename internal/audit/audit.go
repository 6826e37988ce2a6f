package audit

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event is one entry of the log.
type Event struct {
	ID       int64 // rises with every event
	At       time.Time
	Actor    string    // user, client, operator or system
	Action   string    // what happened to what: connection.revoked
	ClientID uuid.UUID // uuid.Nil where no client is concerned
	UserHash []byte    // SHA-256 of the user's id; nil where no user is concerned
	// ConnectionVersion is the version after the act, 0 where no connection is concerned.
	ConnectionVersion int64
	Detail            json.RawMessage // an object
}

// Filter narrows a list by the fields that are not zero.
type Filter struct {
	ClientID uuid.UUID
	UserID   uuid.UUID
	Since    time.Time
}
