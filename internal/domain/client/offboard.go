package client

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
)

// EndConnections ends the connections of an offboarded client, and returns how many it ended. Connections belong to another domain.
type EndConnections func(ctx context.Context, pool *postgres.Pool, clientID uuid.UUID) (int64, error)

// Connections counts the connections that Offboard would end.
func (r *Registry) Connections(ctx context.Context, id uuid.UUID) (int64, error) {
	n, err := r.queries.CountConnections(ctx, id)
	return n, postgres.Wrap("connections of client "+id.String(), err)
}

// Offboard ends a client permanently and disconnects all its connections, in parts. It returns how many it disconnected. Errors:
// refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Offboard(ctx context.Context, id uuid.UUID) (connections int64, err error) {
	var n int64
	err = postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		if n, err = queries.OffboardClient(ctx, id); err != nil || n == 0 {
			return err
		}
		if err = queries.EndPortalSessions(ctx, id); err != nil {
			return err
		}
		if err = queries.EndChangeRequest(ctx, id); err != nil {
			return err
		}
		return audit(ctx, queries, id, "client.offboarded", map[string]any{})
	})
	if err != nil {
		return 0, clientError(id, err)
	}
	if n == 0 {
		return 0, r.unchanged(ctx, id)
	}
	connections, err = r.endConnections(ctx, r.pool, id)
	return connections, postgres.Wrap(fmt.Sprintf("client %s is offboarded, and the service ends the rest of its connections", id), err)
}
