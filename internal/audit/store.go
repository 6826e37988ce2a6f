package audit

import (
	"context"
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
	rows, err := l.lists.ListAuditLog(ctx, auditdb.ListAuditLogParams{
		AfterAt: after.At, AfterID: after.ID, Until: postgres.Null(filter.Until), UserID: postgres.Null(filter.UserID),
		ClientID: postgres.Null(filter.ClientID), Actor: postgres.Null(filter.Actor), Action: postgres.Null(filter.Action), MaxRows: limit,
	})
	return postgres.List(rows, newEvent), postgres.Failed("audit log", err)
}

func newEvent(row auditdb.ListAuditLogRow) Event {
	return Event{
		ID: row.ID, At: row.At, Actor: row.Actor, Action: row.Action, Detail: row.Detail, UserID: postgres.Value(row.UserID),
		ClientID: postgres.Value(row.ClientID), ConnectionVersion: postgres.Value(row.ConnectionVersion),
	}
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
	params := auditdb.LookBackParams{
		Slice: int32(size), BeforeAt: before.At, BeforeID: before.ID, Since: filter.Since, //nolint:gosec // thousands
		ClientID: postgres.Null(filter.ClientID), Actor: postgres.Null(filter.Actor), Action: postgres.Null(filter.Action),
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
		event := newEvent(auditdb.ListAuditLogRow{
			ID: row.ID, At: row.At, Actor: row.Actor, Action: row.Action, Detail: row.Detail, UserID: row.UserID,
			ClientID: row.ClientID, ConnectionVersion: row.ConnectionVersion,
		})
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
		if err != nil || n < sweepRows {
			return postgres.Failed("audit log: sweep", err)
		}
	}
}
