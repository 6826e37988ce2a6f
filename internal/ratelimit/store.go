package ratelimit

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/gen/db"
	"connect-svc/internal/postgres"
)

// admit decides a request and notes it: what the bucket then holds and, when admitted, the lease.
func admit(
	ctx context.Context, pool *pgxpool.Pool, clientID, lease uuid.UUID, policy Policy,
) (db.AdmitRequestRow, error) {
	return db.New(pool).AdmitRequest(ctx, db.AdmitRequestParams{
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
	_ = db.New(noted).ReleaseRequest(context.Background(), db.ReleaseRequestParams{ClientID: clientID, LeaseID: lease})
	return noted.passenger
}

// notebook is no database: what the generated code would send there is noted.
type notebook struct {
	db.DBTX
	passenger *postgres.Passenger
}

// Exec implements db.DBTX.
func (n notebook) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	n.passenger.SQL, n.passenger.Args = sql, args
	return pgconn.CommandTag{}, nil
}

// release ends a lease, once.
func release(ctx context.Context, pool *pgxpool.Pool, clientID, lease uuid.UUID) error {
	return db.New(pool).ReleaseRequest(ctx, db.ReleaseRequestParams{ClientID: clientID, LeaseID: lease})
}
