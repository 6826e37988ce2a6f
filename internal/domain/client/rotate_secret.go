package client

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// Secret is a client's new secret, which is not stored and cannot be shown again.
type Secret struct {
	Secret       string
	OverlapUntil time.Time // until when the previous secret works, too, or zero if it has ended
}

// MaxOverlap is the longest time for which a replaced secret can still work.
const MaxOverlap = 30 * 24 * time.Hour

// RotateSecret replaces the secret of a client. The previous one works for the overlap, by the database's clock: 0, or whole seconds up
// to [MaxOverlap]. With 0 it has stopped working when RotateSecret returns. Older ones never work. Errors: *refusal.FieldError, refusal.ErrClientNotFound,
// refusal.ErrClientOffboarded.
func (r *Registry) RotateSecret(ctx context.Context, id uuid.UUID, overlap time.Duration) (Secret, error) {
	return r.rotate(ctx, id, overlap, nil)
}

// RotateSeenSecret is RotateSecret for a caller that has seen [Client.OverlapUntil]. If another previous secret works by now, nothing is
// replaced, because its holder was promised the overlap. Additional error: ErrReplacedSince.
func (r *Registry) RotateSeenSecret(ctx context.Context, id uuid.UUID, overlap time.Duration, overlapUntil time.Time) (Secret, error) {
	return r.rotate(ctx, id, overlap, &overlapUntil)
}

func (r *Registry) rotate(ctx context.Context, id uuid.UUID, overlap time.Duration, seenUntil *time.Time) (Secret, error) {
	if overlap < 0 || overlap > MaxOverlap || overlap%time.Second != 0 {
		return Secret{}, &refusal.FieldError{Field: "overlap", Problem: "must be 0 or whole seconds, at most 720h"}
	}
	secret, hash, err := credential.NewClientSecret(r.Random)
	if err != nil {
		return Secret{}, err
	}
	until, err := r.queries.ReplaceClientSecret(ctx, clientdb.ReplaceClientSecretParams{
		ClientID: id, SecretHash: hash, Overlap: overlap, SeenUntil: seenUntil, Actor: work.Actor(ctx),
		Expected: r.pool.Expected(),
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
