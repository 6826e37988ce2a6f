// Package migrate changes the schema of a database, and tells whether a program fits it.
//
// # Invariants
//
//   - Of several programs that migrate at a time, one does and the others wait (TestMigrateAtTheSameTime).
//   - Every migration can be taken back, and then leaves nothing (TestMigrate).
//   - A migration that waits for the lock of a table does not hold up the service (TestMigrationBesideTraffic).
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"connect-svc/internal/postgres"
	"connect-svc/migrations"
)

// Direction of a migration.
type Direction int

// Up applies every migration that is missing; Down takes the newest one back.
const (
	Up Direction = iota
	Down
)

// Migration is one change of the schema. AppliedAt is zero while it is pending.
type Migration struct {
	Version   int64
	Name      string // of its file
	AppliedAt time.Time
}

const (
	// lockTimeout is how long a migration waits for the lock of a table at a time. Whoever comes for the table meanwhile waits
	// behind it, even to read, and has four seconds.
	lockTimeout = time.Second
	// lockPause is how long the others then have the table for themselves, and lockPatience how long [Apply] tries.
	lockPause    = time.Second
	lockPatience = time.Minute
)

// Apply changes the schema of the database at url and returns the migrations that it applied or took back, in that
// order: none when there was nothing to do. Each is a transaction of its own, unless it says otherwise. Of several callers
// at one time all but one wait, for a minute at most. As long it tries to get the lock of a table that somebody else holds,
// such as a backup.
func Apply(ctx context.Context, url string, direction Direction) ([]Migration, error) {
	return ApplyFrom(ctx, migrations.Files, url, direction, lockPatience)
}

// ApplyFrom is [Apply] with the migrations of files, and tries for as long as patience to get the lock of a table.
func ApplyFrom(ctx context.Context, files fs.FS, url string, direction Direction, patience time.Duration) (done []Migration, err error) {
	for end := time.Now().Add(patience); ; {
		results, err := apply(ctx, files, url, direction)
		for _, result := range results {
			done = append(done, Migration{Version: result.Source.Version, Name: result.Source.Path})
		}
		if err == nil {
			return done, nil
		}
		if !postgres.IsLockNotAvailable(err) || time.Now().After(end) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lockPause):
		}
	}
}

// apply tries once. With an error it returns what it has done before.
func apply(ctx context.Context, files fs.FS, url string, direction Direction) (results []*goose.MigrationResult, err error) {
	provider, err := openProvider(ctx, files, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = provider.Close() }()
	switch direction {
	case Up:
		results, err = provider.Up(ctx)
		if partial := new(goose.PartialError); errors.As(err, &partial) {
			results = partial.Applied
		}
	case Down:
		var result *goose.MigrationResult
		if result, err = provider.Down(ctx); errors.Is(err, goose.ErrNoNextVersion) {
			return nil, nil
		}
		if err == nil {
			results = append(results, result)
		}
	}
	return results, postgres.Wrap("database: migrate", err)
}

// Status lists all migrations that this program knows, oldest first, with when each was applied.
func Status(ctx context.Context, url string) ([]Migration, error) {
	provider, err := openProvider(ctx, migrations.Files, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = provider.Close() }()
	known, err := provider.Status(ctx)
	return postgres.Map(known, func(m *goose.MigrationStatus) Migration {
		return Migration{Version: m.Source.Version, Name: m.Source.Path, AppliedAt: m.AppliedAt}
	}), postgres.Wrap("database: migrations", err)
}

// openProvider connects without a statement time-out: a migration may build an index of a large table.
func openProvider(ctx context.Context, files fs.FS, url string) (*goose.Provider, error) {
	config, err := postgres.BulkConfig(url)
	if err != nil {
		return nil, err
	}
	if _, set := config.RuntimeParams["lock_timeout"]; !set {
		config.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockTimeout.Milliseconds(), 10)
	}
	config.RuntimeParams[directSetting] = "yes"
	db := stdlib.OpenDB(*config)
	if err := checkDirect(ctx, db, config); err != nil {
		_ = db.Close()
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err == nil {
		var provider *goose.Provider
		provider, err = goose.NewProvider(goose.DialectPostgres, db, files,
			goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
		if err == nil {
			return provider, nil // closes db with itself
		}
	}
	_ = db.Close()
	return nil, fmt.Errorf("database: migrations: %w", err)
}

// directSetting is a setting of the session that means nothing: it arrives at PostgreSQL itself, and not through a pooler.
const directSetting = "connect.direct"

// checkDirect refuses a connection pooler. The lock that keeps migrations apart belongs to a session: a pooler that gives
// each transaction another one would take it here and give it back there.
func checkDirect(ctx context.Context, db *sql.DB, config *pgx.ConnConfig) error {
	var direct bool
	err := db.QueryRowContext(ctx, "select coalesce(current_setting('"+directSetting+"', true), '') = 'yes'").Scan(&direct)
	refused := new(pgconn.PgError)
	switch {
	// PostgreSQL takes each of the settings, and a pooler names the first that it does not know.
	case errors.As(err, &refused) && strings.Contains(refused.Message, "unsupported startup parameter"), err == nil && !direct:
		return fmt.Errorf("database %q at %s: migrations need PostgreSQL itself, and this is a connection pooler",
			config.Database, postgres.Address(config))
	case err != nil:
		return postgres.ConnectError(config, err)
	}
	return nil
}

// Schema tells how the schema of a database and a program fit together. All are numbers of migrations.
type Schema struct {
	Current int64 // the newest one that was applied, 0 before the first
	Needed  int64 // the newest one that this program was built with
	Oldest  int64 // programs that were built with this one, or with a later one, work on the schema
}

// SchemaOf looks at the database of pool.
func SchemaOf(ctx context.Context, pool *postgres.Pool) (schema Schema, err error) {
	if schema.Needed, err = Newest(); err != nil {
		return Schema{}, err
	}
	err = pool.QueryRow(ctx, "select coalesce(max(version_id), 0) from goose_db_version").Scan(&schema.Current)
	if postgres.IsUndefinedTable(err) {
		return schema, nil
	}
	if err == nil && schema.Current >= schema.Needed { // before that there may be no such function
		err = pool.QueryRow(ctx, "select connect_oldest_program()").Scan(&schema.Oldest)
	}
	if err != nil {
		return Schema{}, fmt.Errorf("database: schema: %w", err)
	}
	return schema, nil
}

// Newest returns the number of the newest migration that this program was built with.
func Newest() (newest int64, err error) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migrations: %w", err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}
