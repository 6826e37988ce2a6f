package ratelimit

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	ratelimitdb "connect-svc/gen/db/ratelimit"
	"connect-svc/internal/postgres"
)

// admit decides a request and notes it: what the bucket then holds and, when admitted, the lease.
func admit(
	ctx context.Context, pool *pgxpool.Pool, clientID, lease uuid.UUID, policy Policy,
) (ratelimitdb.AdmitRequestRow, error) {
	return ratelimitdb.New(pool).AdmitRequest(ctx, ratelimitdb.AdmitRequestParams{
		ClientID:          clientID,
		LeaseID:           lease,
		RequestsPerMinute: int32(policy.RequestsPerMinute), //nolint:gosec // bounded by the policy
		Burst:             int32(policy.Burst),             //nolint:gosec // bounded by the policy
		ConcurrentReads:   int32(policy.ConcurrentReads),   //nolint:gosec // bounded by the policy
	})
}

// releasing is release, to go along with another statement.
func releasing(clientID, lease uuid.UUID) *postgres.Passenger {
	noted := notebook{passenger: &postgres.Passenger{Row: clientID}}
	_ = ratelimitdb.New(noted).ReleaseRequest(context.Background(), ratelimitdb.ReleaseRequestParams{ClientID: clientID, LeaseID: lease})
	return noted.passenger
}

// notebook is no database: what the generated code would send there is noted.
type notebook struct {
	ratelimitdb.DBTX
	passenger *postgres.Passenger
}

// Exec implements ratelimitdb.DBTX.
func (n notebook) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	n.passenger.SQL, n.passenger.Args = sql, args
	return pgconn.CommandTag{}, nil
}

// release ends a lease, once.
func release(ctx context.Context, pool *pgxpool.Pool, clientID, lease uuid.UUID) error {
	return ratelimitdb.New(pool).ReleaseRequest(ctx, ratelimitdb.ReleaseRequestParams{ClientID: clientID, LeaseID: lease})
}
