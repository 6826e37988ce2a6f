package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"connect-svc/internal/postgres"

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
	// ConnectionVersion is the version that the act left, 0 where no connection is concerned.
	ConnectionVersion int64
	Detail            json.RawMessage // an object
}

// Filter narrows a list. What is zero does not.
type Filter struct {
	ClientID uuid.UUID
	UserID   uuid.UUID
	Since    time.Time
}

// Log is the audit log of a database.
type Log struct {
	store store
}

// New is the audit log of a migrated database.
func New(pool *postgres.Pool) *Log { return &Log{newStore(pool)} }

// List returns events in the order in which they were written: at most limit of them, those after the given id; 0
// starts at the first.
func (l *Log) List(ctx context.Context, filter Filter, after int64, limit int32) ([]Event, error) {
	events, err := l.store.list(ctx, filter, after, limit)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return events, nil
}
