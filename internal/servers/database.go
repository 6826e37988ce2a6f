package servers

import (
	"context"
	"fmt"
	"time"

	serversdb "connect-svc/gen/db/servers"
	"connect-svc/internal/postgres"
)

const (
	// growthDays is the number of days whose sizes are shown.
	growthDays = 30
	// maxTables bounds the list of the largest tables.
	maxTables = 10
)

// Database is PostgreSQL's description of itself.
type Database struct {
	Version string
	Bytes   int64
	Sizes   []Size // one a day, oldest first; days may be missing
	Tables  []Table
}

// Size of the database on a day.
type Size struct {
	Day   time.Time
	Bytes int64
}

// Table is one of the largest tables, with everything that belongs to it.
type Table struct {
	Name           string
	Bytes, Indexes int64
	Rows           int64 // as PostgreSQL estimates them
}

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
func (s *Servers) Database(ctx context.Context) (d Database, err error) {
	now, err := s.queries.Database(ctx)
	if err != nil {
		return Database{}, fmt.Errorf("servers: database: %w", err)
	}
	d.Version, d.Bytes = now.Version, now.Bytes
	days, err := s.queries.ListDatabaseSizes(ctx, growthDays)
	if err != nil {
		return Database{}, fmt.Errorf("servers: sizes: %w", err)
	}
	d.Sizes = postgres.Map(days, func(day serversdb.DatabaseSize) Size { return Size(day) })
	tables, err := s.queries.LargestTables(ctx, maxTables)
	d.Tables = postgres.Map(tables, func(t serversdb.LargestTablesRow) Table { return Table{t.Name, t.Bytes, t.IndexBytes, t.EstimatedRows} })
	return d, postgres.Wrap("servers: tables", err)
}
