package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Replanned is a pool that has each query planned for the values that it has. It is for the lists that people narrow by filters
// which may be left out: a plan for any values would read a whole table where an index has the few rows.
type Replanned struct{ *Pool }

// Query asks for rows.
func (p Replanned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.Pool.Query(ctx, sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
}
