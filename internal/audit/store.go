package audit

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
	"connect-svc/internal/timelimit"
)

// Log is the audit log of a database.
type Log struct {
	pool      *postgres.Pool
	queries   *auditdb.Queries
	retention time.Duration
	bounds    bounds

	failed, listed rare // of networks and of operators
}

// New returns the audit log of a migrated database. [Log.Sweep] deletes events that are older than retention; 0 keeps them
// for ever.
func New(pool *postgres.Pool, limits timelimit.Limits, retention time.Duration) *Log {
	return &Log{pool: pool, queries: auditdb.New(pool), retention: retention, bounds: usual(limits)}
}

func newEvent(row auditdb.LookBackRow) Event {
	return Event{
		ID: row.ID, At: row.At, Actor: row.Actor, Action: row.Action, Detail: row.Detail, UserID: postgres.Value(row.UserID),
		ClientID: postgres.Value(row.ClientID), ConnectionVersion: postgres.Value(row.ConnectionVersion),
	}
}

// inOrder calls act with a function that looks at slices of the log: at most size entries of those that the index of a filter's
// rarest kind has, in an order from a position. All of it is one transaction.
func (l *Log) inOrder(ctx context.Context, in order, act func(look func(Filter, page.Key, int) (slice, error)) error) error {
	return postgres.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		queries := auditdb.New(tx)
		if err := queries.ReadInOrder(ctx); err != nil {
			return err
		}
		return act(func(filter Filter, from page.Key, size int) (slice, error) {
			params := newLook(filter, from, in.end(filter), size)
			if in == oldestFirst {
				rows, err := queries.LookOn(ctx, auditdb.LookOnParams(params))
				return newSlice(rows, size), err
			}
			rows, err := queries.LookBack(ctx, params)
			return newSlice(rows, size), err
		})
	})
}

// newLook reads the entries of a connection or of a user, if one is asked for, else those of a client, of an actor, of an action,
// else all of the time, and has PostgreSQL pick what fits of these.
func newLook(filter Filter, from page.Key, to time.Time, size int) auditdb.LookBackParams {
	params := auditdb.LookBackParams{
		Slice: int32(size), FromAt: from.At, FromID: from.N, ToAt: to, //nolint:gosec // thousands
		ClientID: postgres.Null(filter.ClientID), Actor: postgres.Null(filter.Actor), Action: postgres.Null(filter.Action),
	}
	switch {
	case filter.UserID != uuid.Nil && params.ClientID != nil:
		params.ConnectedUser, params.ConnectedClient = &filter.UserID, params.ClientID
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
func newSlice[R auditdb.LookBackRow | auditdb.LookOnRow](rows []R, size int) (s slice) {
	for _, each := range rows {
		row := auditdb.LookBackRow(each)
		event := newEvent(row)
		if row.Found {
			s.found = append(s.found, event)
		}
		if int(row.Place) == size {
			s.next = event.Key()
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
			return postgres.Wrap("audit log: sweep", err)
		}
	}
}
