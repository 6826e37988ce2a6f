package client

import (
	"context"

	"github.com/google/uuid"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/actor"
)

// Disable suspends a client: it fails authentication and its access tokens stop working, until it is enabled again. Its connections
// stay. Disabling a disabled client changes nothing. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Disable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Disabled)
}

// Enable makes a disabled client usable again, with its connections. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Enable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Active)
}

func (r *Registry) setStatus(ctx context.Context, id uuid.UUID, status Status) error {
	found, err := r.queries.SetClientStatus(ctx, clientdb.SetClientStatusParams{ClientID: id, Status: string(status), Actor: actor.Of(ctx)})
	if err != nil {
		return clientError(id, err)
	}
	if found == 0 {
		return r.unchanged(ctx, id)
	}
	return nil
}
