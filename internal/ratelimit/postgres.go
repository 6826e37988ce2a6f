package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres keeps buckets and leases in PostgreSQL: one row a client, one round trip an admission, one a release. The
// rule itself is the function admit_request of the migrations. It is safe for concurrent use.
type Postgres struct {
	pool      *pgxpool.Pool
	timeLimit time.Duration
}

// NewPostgres limits by the database of pool. All servers that share the database share the limits.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool, timeLimit} }

// Admit decides one request of a client. It answers within two seconds. An error says that nothing could be decided:
// the database is away or overrun, or does not know the client. The request must not go on then.
func (p *Postgres) Admit(ctx context.Context, clientID uuid.UUID, policy Policy) (Decision, error) {
	lease, err := uuid.NewRandom()
	if err != nil {
		return Decision{}, fmt.Errorf("ratelimit: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeLimit)
	defer cancel()
	admission, err := admit(ctx, p.pool, clientID, lease, policy)
	if err != nil {
		return Decision{}, fmt.Errorf("ratelimit: admit: %w", err)
	}
	return p.decide(clientID, lease, policy, admission.Outcome, int(admission.Remaining), int(admission.ResetSeconds))
}

// Admitted is the decision for a client who was admitted, with this lease, within another statement: it is how a request is
// authenticated and admitted in one round trip.
func (p *Postgres) Admitted(clientID, lease uuid.UUID, policy Policy, remaining, resetSeconds int) Decision {
	decision, err := p.decide(clientID, lease, policy, "admitted", remaining, resetSeconds)
	if err != nil {
		panic(err) // the outcome is a known one
	}
	return decision
}

func (p *Postgres) decide(
	clientID, lease uuid.UUID, policy Policy, outcome string, remaining, resetSeconds int,
) (Decision, error) {
	decision, err := decide(outcome, policy, remaining, resetSeconds,
		func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, p.timeLimit)
			defer cancel()
			if err := release(ctx, p.pool, clientID, lease); err != nil {
				return fmt.Errorf("ratelimit: release: %w", err)
			}
			return nil
		})
	if decision.Allowed {
		decision.along = releasing(clientID, lease)
	}
	return decision, err
}
