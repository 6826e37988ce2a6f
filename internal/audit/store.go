package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/postgres"
)

// Log is the audit log of a database.
type Log struct {
	pool      *postgres.Pool
	queries   *auditdb.Queries
	lists     *auditdb.Queries
	retention time.Duration
	bounds    bounds
}

// New returns the audit log of a migrated database. [Log.Sweep] deletes events that are older than retention; 0 keeps them
// for ever.
func New(pool *postgres.Pool, retention time.Duration) *Log {
	return &Log{pool, auditdb.New(pool), auditdb.New(postgres.Replanned{Pool: pool}), retention, usual}
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
		events[i] = newEvent(row.ID, row.At, row.Actor, row.Action, row.UserID, row.ClientID, row.ConnectionVersion, row.Detail)
	}
	return events, nil
}

func newEvent(
	id int64, at time.Time, actor, action string, userID, clientID *uuid.UUID, version *int64, detail json.RawMessage,
) Event {
	event := Event{ID: id, At: at, Actor: actor, Action: action, Detail: detail}
	if userID != nil {
		event.UserID = *userID
	}
	if clientID != nil {
		event.ClientID = *clientID
	}
	if version != nil {
		event.ConnectionVersion = *version
	}
	return event
}

// inOrder calls act with a function that looks at slices of the log: at most size entries of those that the index of a filter's
// rarest kind has, newest first. All of it is one transaction.
func (l *Log) inOrder(ctx context.Context, act func(look func(Filter, Position, int) (slice, error)) error) error {
	return postgres.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		queries := auditdb.New(tx)
		if err := queries.ReadInOrder(ctx); err != nil {
			return err
		}
		return act(func(filter Filter, before Position, size int) (slice, error) {
			rows, err := queries.LookBack(ctx, lookBack(filter, before, size))
			return newSlice(rows, size), err
		})
	})
}

// lookBack reads the entries of a user, if one is asked for, else those of a client, of an actor, of an action, else all of the
// time, and has PostgreSQL pick what fits of these.
func lookBack(filter Filter, before Position, size int) auditdb.LookBackParams {
	params := auditdb.LookBackParams{Slice: int32(size), BeforeAt: before.At, BeforeID: before.ID, Since: filter.Since} //nolint:gosec // thousands
	if filter.ClientID != uuid.Nil {
		params.ClientID = &filter.ClientID
	}
	if filter.Actor != "" {
		params.Actor = &filter.Actor
	}
	if filter.Action != "" {
		params.Action = &filter.Action
	}
	switch {
	case filter.UserID != uuid.Nil:
		params.OfUser = &filter.UserID
	case filter.Itself:
		params.OfUser, params.ClientID = params.ClientID, nil // it is the subject
	case params.ClientID != nil:
		params.OfClient = params.ClientID
	case params.Actor != nil:
		params.OfActor = params.Actor
	case params.Action != nil:
		params.OfAction = params.Action
	default:
		params.OfAll = true
	}
	return params
}

// newSlice is what was found among the entries that were looked at, and where the next slice begins.
func newSlice(rows []auditdb.LookBackRow, size int) (s slice) {
	for _, row := range rows {
		event := newEvent(row.ID, row.At, row.Actor, row.Action, row.UserID, row.ClientID, row.ConnectionVersion, row.Detail)
		if row.Found {
			s.found = append(s.found, event)
		}
		if int(row.Place) == size {
			s.next = event.Position()
		}
	}
	return s
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
