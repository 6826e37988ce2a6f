package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Replanned is a pool that has PostgreSQL plan each query for its values. It is for lists with optional filters: a generic plan
// would read a whole table although an index has the few rows.
type Replanned struct{ *Pool }

// Query returns rows.
func (p Replanned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.Pool.Query(ctx, sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
}
