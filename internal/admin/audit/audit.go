package audit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Log is the audit log of a database.
type Log struct {
	pool      *postgres.Pool
	queries   *auditdb.Queries
	retention time.Duration
	bounds    bounds

	failedSignIns, listings rare // by network, and by operator
}

// New returns the audit log of a migrated database. [Log.Sweep] deletes events older than retention; 0 keeps them forever.
func New(pool *postgres.Pool, limits work.Limits, retention time.Duration) *Log {
	return &Log{pool: pool, queries: auditdb.New(pool), retention: retention, bounds: usual(limits)}
}

// Event is one entry of the log.
type Event struct {
	ID       int64 // orders events of one time, and identifies an event among those of its user or client
	At       time.Time
	Actor    string    // user, client, system, operator, or the name of an operator's token
	Action   string    // the object and the act, such as connection.revoked
	ClientID uuid.UUID // uuid.Nil: the event concerns no client
	UserID   uuid.UUID // uuid.Nil: the event concerns no user; it stays after the user is deleted
	// ConnectionVersion is the version after the act. 0: the event concerns no connection.
	ConnectionVersion int64
	Detail            json.RawMessage // an object
}

// Key returns the event's place in the log.
func (e Event) Key() page.Key { return page.Key{At: e.At, N: e.ID} }

// Filter narrows a list by the fields that are not zero.
type Filter struct {
	ClientID uuid.UUID
	UserID   uuid.UUID
	Since    time.Time // this instant and later
	Until    time.Time // before this instant
	Actor    string
	Action   string

	// Itself narrows a search to events of the client itself, without those of its connections.
	Itself bool
}

// sweepRows bounds the rows of a statement, so that it ends within its timeout.
const sweepRows = 10_000

// Sweep deletes events whose retention was over at that time.
func (l *Log) Sweep(ctx context.Context, before time.Time) error {
	if l.retention == 0 {
		return nil
	}
	for {
		n, err := l.queries.SweepAuditLog(ctx, auditdb.SweepAuditLogParams{Before: before.Add(-l.retention), MaxRows: sweepRows})
		if err != nil || n < sweepRows {
			return postgres.Wrap("audit log: sweep", err)
		}
	}
}
