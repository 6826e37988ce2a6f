package ratelimit

import (
	"context"
	"time"

	"github.com/google/uuid"

	ratelimitdb "connect-svc/gen/db/ratelimit"
	"connect-svc/internal/foundation/postgres"
)

// Postgres stores the texts in PostgreSQL: one row a client. It is safe for concurrent use.
type Postgres struct {
	queries *ratelimitdb.Queries
}

// NewPostgres stores the texts in the database of pool.
func NewPostgres(pool *postgres.Pool) Postgres { return Postgres{ratelimitdb.New(pool)} }

// ID implements [Store]. All servers have the same database.
func (p Postgres) ID(context.Context) (string, error) { return "PostgreSQL", nil }

// Check implements [Store]. Other checks tell whether the database accepts changes.
func (p Postgres) Check(ctx context.Context) error {
	_, err := p.Load(ctx, uuid.Nil) // of a client that does not exist
	return err
}

// Load implements [Store].
func (p Postgres) Load(ctx context.Context, clientID uuid.UUID) (string, error) {
	stored, err := p.queries.LoadState(ctx, clientID)
	return stored, postgres.NoRowsAs(err, nil)
}

// CompareAndSet implements [Store]. A row lives as long as its client.
func (p Postgres) CompareAndSet(ctx context.Context, clientID uuid.UUID, old, next string, _ time.Duration) (_ bool, err error) {
	var changed int64
	if old == "" {
		changed, err = p.queries.SetFirstState(ctx, ratelimitdb.SetFirstStateParams{ClientID: clientID, State: next})
	} else {
		changed, err = p.queries.CompareAndSetState(ctx, ratelimitdb.CompareAndSetStateParams{ClientID: clientID, Old: old, Next: next})
	}
	return changed == 1, err
}
