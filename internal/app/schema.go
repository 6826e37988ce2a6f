package app

import (
	"context"
	"fmt"

	"connect-svc/internal/postgres"
	"connect-svc/internal/postgres/migrate"
)

// CheckSchema returns an error unless this program works on the database: the database has all migrations of this program, and none of
// a later program that removes something this program uses. The error says what to do.
func CheckSchema(ctx context.Context, pool *postgres.Pool) error {
	schema, err := migrate.SchemaOf(ctx, pool)
	switch {
	case err != nil:
		return err
	case schema.Current < schema.Needed:
		return fmt.Errorf("the database is at migration %d and this program needs %d: run `connect-svc migrate up`",
			schema.Current, schema.Needed)
	case schema.Needed < schema.Oldest:
		return fmt.Errorf("the database is at migration %d, for programs that know %d or more, and this one knows %d: "+
			"run a newer program, or take migrations back with its `connect-svc migrate down`",
			schema.Current, schema.Oldest, schema.Needed)
	}
	return nil
}
