package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Disable suspends a client: it fails authentication and its access tokens stop working, until it is enabled again. Its connections
// stay, and the sessions of its people end. Disabling a disabled client changes nothing. Errors: refusal.ErrClientNotFound,
// refusal.ErrClientOffboarded.
func (r *Registry) Disable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Disabled)
}

// Enable makes a disabled client usable again, with its connections. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Enable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Active)
}

func (r *Registry) setStatus(ctx context.Context, id uuid.UUID, status Status) error {
	var changed int64
	err := postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) (err error) {
		queries := r.queries.WithTx(tx)
		changed, err = queries.SetClientStatus(ctx, clientdb.SetClientStatusParams{ClientID: id, Status: string(status), Actor: work.Actor(ctx)})
		if err != nil || status != Disabled {
			return err
		}
		return queries.EndPortalSessions(ctx, id)
	})
	if err != nil {
		return clientError(id, err)
	}
	if changed == 0 {
		return r.unchanged(ctx, id)
	}
	return nil
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

// Secret is a client's new secret, which is not stored and cannot be shown again.
type Secret struct {
	Secret       string
	OverlapUntil time.Time // until when the previous secret works, too, or zero if it has ended
}

// maxOverlap is the longest time for which a replaced secret can still work.
const maxOverlap = 30 * 24 * time.Hour

// RotateSecret replaces the secret of a client. The previous one works for the overlap, by the database's clock: 0, or whole seconds up
// to [maxOverlap]. With 0 it has stopped working when RotateSecret returns. Older ones never work. Errors: refusal.Field, refusal.OverBudget,
// refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) RotateSecret(ctx context.Context, id uuid.UUID, overlap time.Duration) (Secret, error) {
	return r.rotate(ctx, id, overlap, nil)
}

// RotateSeenSecret is RotateSecret for a caller that has seen [Client.OverlapUntil]. If another previous secret works by now, nothing is
// replaced, because its holder was promised the overlap. Additional error: ErrReplacedSince.
func (r *Registry) RotateSeenSecret(ctx context.Context, id uuid.UUID, overlap time.Duration, overlapUntil time.Time) (Secret, error) {
	return r.rotate(ctx, id, overlap, &overlapUntil)
}

func (r *Registry) rotate(ctx context.Context, id uuid.UUID, overlap time.Duration, seenUntil *time.Time) (Secret, error) {
	if overlap < 0 || overlap > maxOverlap || overlap%time.Second != 0 {
		return Secret{}, refusal.Field{Path: "overlap", Problem: "must be 0 or whole seconds, at most 720h"}
	}
	secret, hash, err := credential.NewClientSecret(r.Random)
	if err != nil {
		return Secret{}, err
	}
	var until *time.Time
	err = r.Costly(ctx, id, "client.secret_replaced", func(tx pgx.Tx) (err error) {
		until, err = r.queries.WithTx(tx).ReplaceClientSecret(ctx, clientdb.ReplaceClientSecretParams{
			ClientID: id, SecretHash: hash, Overlap: overlap, SeenUntil: seenUntil, Actor: work.Actor(ctx),
		})
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrReplacedSince
		if known, unknown := r.Get(ctx, id); unknown != nil {
			return Secret{}, unknown
		} else if known.Status == Offboarded {
			err = refusal.ErrClientOffboarded
		}
	}
	if err != nil {
		return Secret{}, clientError(id, err)
	}
	return Secret{secret, postgres.Value(until)}, nil
}
