package audit

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/postgres"
)

// Log is the audit log of a database.
type Log struct{ queries *auditdb.Queries }

// New returns the audit log of a migrated database.
func New(pool *postgres.Pool) *Log { return &Log{auditdb.New(pool)} }

// List returns events in the order in which they were written: at most limit of them, those after the given id; 0
// starts at the first.
func (l *Log) List(ctx context.Context, filter Filter, after int64, limit int32) ([]Event, error) {
	params := auditdb.ListAuditEventsParams{After: after, MaxRows: limit}
	if filter.ClientID != uuid.Nil {
		params.ClientID = &filter.ClientID
	}
	if filter.UserID != uuid.Nil {
		params.UserID = &filter.UserID
	}
	if !filter.Since.IsZero() {
		params.Since = &filter.Since
	}
	rows, err := l.queries.ListAuditEvents(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	events := make([]Event, len(rows))
	for i, row := range rows {
		events[i] = Event{
			ID: row.ID, At: row.At, Actor: row.Actor, Action: row.Action, UserHash: row.UserHash, Detail: row.Detail,
		}
		if row.ClientID != nil {
			events[i].ClientID = *row.ClientID
		}
		if row.ConnectionVersion != nil {
			events[i].ConnectionVersion = *row.ConnectionVersion
		}
	}
	return events, nil
}
