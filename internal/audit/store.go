package audit

import (
	"context"

	"github.com/google/uuid"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/postgres"
)

// store reads the events.
type store struct {
	queries *auditdb.Queries
}

func newStore(pool *postgres.Pool) store { return store{auditdb.New(pool)} }

func (s store) list(ctx context.Context, filter Filter, after int64, limit int32) ([]Event, error) {
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
	rows, err := s.queries.ListAuditEvents(ctx, params)
	if err != nil {
		return nil, err
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
