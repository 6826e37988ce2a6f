package servers

import (
	"context"
	"errors"
	"time"

	serversdb "connect-svc/gen/db/servers"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

const (
	// growthDays is the number of days whose sizes are shown.
	growthDays = 30
	// maxTables bounds the list of the largest tables.
	maxTables = 10
)

// Database is PostgreSQL's description of itself.
type Database struct {
	serversdb.DatabaseRow
	Sizes  []Size // one a day, oldest first; days may be missing
	Tables []Table
}

// Size of the database on a day.
type Size = serversdb.DatabaseSize

// Table is one of the largest tables, with everything that belongs to it, and about how many rows it has.
type Table = serversdb.LargestTablesRow

// Growth returns by how many bytes the database grew since the first of its sizes, and over how many days. known is false if there is
// no size of an earlier day.
func (d Database) Growth(today time.Time) (bytes int64, days int, known bool) {
	if len(d.Sizes) == 0 {
		return 0, 0, false
	}
	days = int(today.UTC().Truncate(24*time.Hour).Sub(d.Sizes[0].Day).Hours() / 24)
	return d.Bytes - d.Sizes[0].Bytes, days, days > 0
}

// Database asks PostgreSQL for its version and size, the sizes of the last 30 days, and the largest tables.
func (s *Servers) Database(ctx context.Context) (Database, error) {
	now, err := s.queries.Database(ctx)
	sizes, failure := s.queries.ListDatabaseSizes(ctx, growthDays)
	tables, last := s.queries.LargestTables(ctx, maxTables)
	return Database{now, sizes, tables}, postgres.Wrap("servers: database", errors.Join(err, failure, last))
}

// Sizes returns the newest recorded size of the database, and the one of a week before it, in bytes; 0 if there is none.
func (s *Servers) Sizes(ctx context.Context) (bytes, weekBefore int64, err error) {
	row, err := s.queries.Sizes(work.AnyClock(ctx))
	return row.Bytes, row.WeekBefore, postgres.Wrap("database sizes", err)
}
