package app

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/internal/postgres"
)

// CheckSchema is an error unless the database is at the migration that this program was built with. The error says
// what to do.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	current, expected, err := postgres.SchemaVersion(ctx, pool)
	switch {
	case err != nil:
		return err
	case current < expected:
		return fmt.Errorf("the database is at migration %d and this program needs %d: run `connect-svc migrate up`", current, expected)
	case current > expected:
		return fmt.Errorf("the database is at migration %d and this program knows only %d: "+
			"run the newer program, or take migrations back with its `connect-svc migrate down`", current, expected)
	}
	return nil
}
