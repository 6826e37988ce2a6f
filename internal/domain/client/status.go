package client

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Disable suspends a client: it fails authentication and its access tokens stop working, until it is enabled again. Its connections
// stay, and the sessions of its people end. Disabling a disabled client changes nothing. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Disable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Disabled)
}

// Enable makes a disabled client usable again, with its connections. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Enable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Active)
}

func (r *Registry) setStatus(ctx context.Context, id uuid.UUID, status Status) error {
	var found int64
	err := postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) (err error) {
		queries := r.queries.WithTx(tx)
		found, err = queries.SetClientStatus(ctx, clientdb.SetClientStatusParams{ClientID: id, Status: string(status), Actor: work.Actor(ctx)})
		if err != nil || status != Disabled {
			return err
		}
		return queries.EndPortalSessions(ctx, id)
	})
	if err != nil {
		return clientError(id, err)
	}
	if found == 0 {
		return r.unchanged(ctx, id)
	}
	return nil
}
