package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/postgres"
)

// Log is the audit log of a database.
type Log struct {
	queries   *auditdb.Queries
	lists     *auditdb.Queries
	retention time.Duration
}

// New returns the audit log of a migrated database. [Log.Sweep] deletes events that are older than retention; 0 keeps them
// for ever.
func New(pool *postgres.Pool, retention time.Duration) *Log {
	return &Log{auditdb.New(pool), auditdb.New(postgres.Replanned{Pool: pool}), retention}
}

// List returns events in the order of their times: at most limit of them, those after a position.
func (l *Log) List(ctx context.Context, filter Filter, after Position, limit int32) ([]Event, error) {
	if !filter.Since.IsZero() && after.At.Before(filter.Since) {
		after = Position{filter.Since, 0} // ids begin with 1
	}
	params := auditdb.ListAuditLogParams{AfterAt: after.At, AfterID: after.ID, MaxRows: limit}
	if filter.ClientID != uuid.Nil {
		params.ClientID = &filter.ClientID
	}
	if filter.UserID != uuid.Nil {
		params.UserID = &filter.UserID
	}
	if !filter.Until.IsZero() {
		params.Until = &filter.Until
	}
	if filter.Actor != "" {
		params.Actor = &filter.Actor
	}
	if filter.Action != "" {
		params.Action = &filter.Action
	}
	rows, err := l.lists.ListAuditLog(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	events := make([]Event, len(rows))
	for i, row := range rows {
		events[i] = Event{ID: row.ID, At: row.At, Actor: row.Actor, Action: row.Action, Detail: row.Detail}
		if row.UserID != nil {
			events[i].UserID = *row.UserID
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

// sweepRows bounds a statement, so that it ends within its timeout.
const sweepRows = 10_000

// Sweep deletes events whose retention is over.
func (l *Log) Sweep(ctx context.Context) error {
	if l.retention == 0 {
		return nil
	}
	for {
		n, err := l.queries.SweepAuditLog(ctx, auditdb.SweepAuditLogParams{Retention: l.retention, MaxRows: sweepRows})
		if err != nil {
			return fmt.Errorf("audit log: sweep: %w", err)
		}
		if n < sweepRows {
			return nil
		}
	}
}
