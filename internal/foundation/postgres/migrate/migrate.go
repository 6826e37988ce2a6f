// Package migrate changes the schema of a database, and tells whether it fits this program.
//
// # Invariants
//
//   - One program at a time migrates, and the others wait (TestMigrateAtTheSameTime).
//   - A database that was migrated with other files than those of this program is refused and stays as it is (TestEditedMigration).
//   - Every migration can be rolled back, and then leaves nothing (TestMigrate).
//   - A migration that waits for the lock of a table does not hold up the service (restart.TestMigrationBesideTraffic).
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/migrations"
)

// Target is where [Apply] goes: Up applies every missing migration, and a number rolls back all that are newer.
type Target int64

// Up is the newest schema.
const Up Target = math.MaxInt64

// Migration is one change of the schema. AppliedAt is zero while it is pending.
type Migration struct {
	Version   int64
	Name      string // of its file
	AppliedAt time.Time
	Differs   bool // the database was migrated with another file
}

const (
	// firstLockWait is how long a migration first waits for the lock of a table. Meanwhile every other statement on the table waits behind
	// it, even a read. Each time it tries again it waits twice as long, up to lockWait. After a second of waiting, PostgreSQL cancels an
	// autovacuum of the table.
	firstLockWait = 50 * time.Millisecond
	lockWait      = time.Second
)

// Apply changes the schema of the database at url and returns the migrations that it applied or rolled back, in that order. Each is a
// transaction of its own, unless it says otherwise. One caller at a time migrates; the others wait for up to a minute. Apply also
// tries for a minute to lock a table that something else has locked, such as a backup.
func Apply(ctx context.Context, url string, target Target) ([]Migration, error) {
	return ApplyFrom(ctx, migrations.Files, url, target, time.Minute)
}

// ApplyFrom is [Apply] with the migrations of files. It tries for patience to get the lock of a table.
func ApplyFrom(ctx context.Context, files fs.FS, url string, target Target, patience time.Duration) (done []Migration, err error) {
	end := time.Now().Add(patience)
	for wait := firstLockWait; ; wait = min(2*wait, lockWait) {
		results, err := apply(ctx, files, url, target, wait)
		for _, result := range results {
			done = append(done, Migration{Version: result.Source.Version, Name: result.Source.Path})
		}
		if err == nil {
			return done, nil
		}
		if !postgres.Is(err, postgres.LockNotAvailable) || time.Now().After(end) || !work.Pause(ctx, time.Second) {
			return nil, err
		}
	}
}

// apply tries once, and waits for each lock for up to wait. With an error it also returns what it did before.
func apply(ctx context.Context, files fs.FS, url string, target Target, wait time.Duration) (results []*goose.MigrationResult, err error) {
	provider, known, applied, err := openProvider(ctx, files, url, wait, target == Up)
	if err != nil {
		return nil, err
	}
	defer func() { _ = provider.Close() }()
	if err := checkApplied(known, applied); err != nil {
		return nil, err
	}
	if target == Up {
		results, err = provider.Up(ctx)
	} else {
		if err := checkLast(known, applied); err != nil {
			return nil, err
		}
		results, err = provider.DownTo(ctx, int64(target))
	}
	if partial := new(goose.PartialError); errors.As(err, &partial) {
		results = partial.Applied
	}
	return results, postgres.Wrap("database: migrate", err)
}

// checkLast returns an error if this program does not have the newest migration of the database, without which it cannot roll back any.
func checkLast(known map[int64]file, applied map[int64]applied) error {
	last := slices.Max(append(slices.Collect(maps.Keys(applied)), 0))
	if _, ok := known[last]; !ok && last > 0 {
		return fmt.Errorf("the database is at migration %d, which this program does not have: run the newer program that applied it", last)
	}
	return nil
}

// Applied lists the migrations of the database, newest first. It is an error if this program does not have the newest one.
func Applied(ctx context.Context, url string) ([]Migration, error) {
	provider, known, applied, err := openProvider(ctx, migrations.Files, url, lockWait, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = provider.Close() }()
	versions := slices.Sorted(maps.Keys(applied))
	slices.Reverse(versions)
	return postgres.Map(versions, func(version int64) Migration { return Migration{Version: version, Name: known[version].name} }), checkLast(known, applied)
}

// Status lists the migrations of this program, oldest first, and when each was applied.
func Status(ctx context.Context, url string) ([]Migration, error) {
	provider, known, applied, err := openProvider(ctx, migrations.Files, url, lockWait, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = provider.Close() }()
	return postgres.Map(slices.Sorted(maps.Keys(known)), func(version int64) Migration {
		own, m := known[version], applied[version]
		return Migration{version, own.name, m.At, !m.At.IsZero() && m.Checksum != own.checksum}
	}), nil
}

// openProvider connects without a statement timeout: a migration may build an index of a large table. It also returns the migrations of
// files, and the checksums of those that are applied. The provider closes the connections with itself.
func openProvider(
	ctx context.Context, files fs.FS, url string, wait time.Duration, up bool,
) (provider *goose.Provider, known map[int64]file, applied map[int64]applied, err error) {
	if known, err = readFiles(files); err != nil {
		return nil, nil, nil, err
	}
	config, err := postgres.BulkConfig(url)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, set := config.RuntimeParams["lock_timeout"]; !set {
		config.RuntimeParams["lock_timeout"] = strconv.FormatInt(wait.Milliseconds(), 10)
	}
	config.RuntimeParams[directSetting] = "yes"
	db := stdlib.OpenDB(*config)
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	if err := checkDirect(ctx, db, config); err != nil {
		return nil, nil, nil, err
	}
	var text string
	err = db.QueryRowContext(ctx, selectApplied).Scan(&text)
	if applied, err = readApplied(text, err); err != nil {
		return nil, nil, nil, err
	}
	versions, wrong := database.NewStore(database.DialectPostgres, goose.DefaultTablename)
	locker, failure := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err = errors.Join(wrong, failure); err == nil {
		provider, err = goose.NewProvider(goose.DialectCustom, db, files,
			goose.WithStore(store{versions, known, up}), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	}
	return provider, known, applied, postgres.Wrap("database: migrations", err)
}

// directSetting is a setting without a meaning. A session has it if it reaches PostgreSQL directly, and not through a pooler.
const directSetting = "connect.direct"

// checkDirect returns an error for a connection pooler. The lock that keeps migrations apart belongs to a session, and a pooler may
// use another session for each transaction.
func checkDirect(ctx context.Context, db *sql.DB, config *pgx.ConnConfig) error {
	var direct bool
	err := db.QueryRowContext(ctx, "select coalesce(current_setting('"+directSetting+"', true), '') = 'yes'").Scan(&direct)
	refused := new(pgconn.PgError)
	switch {
	// PostgreSQL accepts each setting, and a pooler names the first one that it does not know.
	case errors.As(err, &refused) && strings.Contains(refused.Message, "unsupported startup parameter"), err == nil && !direct:
		return fmt.Errorf("database %q at %s: migrations need PostgreSQL itself, and this is a connection pooler",
			config.Database, postgres.Address(config))
	case err != nil:
		return postgres.ConnectError(config, err)
	}
	return nil
}

// Schema compares the schema of a database with this program, by numbers of migrations.
type Schema struct {
	Current int64 // the newest migration that was applied; 0 if there is none
	Needed  int64 // the newest migration of this program
	Oldest  int64 // programs that have this migration work on the schema
}

// Misfit says how the schema of a database that answered does not suit this program.
type Misfit string

func (m Misfit) Error() string { return string(m) }

// SchemaOf returns the Schema of the database of pool. It is a [Misfit] if the database was migrated with other files than those of this
// program.
func SchemaOf(ctx context.Context, pool *postgres.Pool) (schema Schema, err error) {
	known, err := ownFiles()
	if err != nil {
		return Schema{}, err
	}
	var text string
	err = pool.QueryRow(ctx, selectApplied).Scan(&text)
	applied, err := readApplied(text, err)
	if err == nil {
		err = checkApplied(known, applied)
	}
	if err != nil {
		return Schema{}, err
	}
	schema.Needed = slices.Max(slices.Collect(maps.Keys(known)))
	for version, m := range applied {
		if !m.At.IsZero() {
			schema.Current = max(schema.Current, version)
		}
	}
	// until 1.3.0: programs of 1.0.0 work on the schema. One migration drops what is there for them (webhook_queue, webhook_events.queued, two
	// rows of turns, is_secret_of without an expected time), and replaces connect_oldest_program().
	if schema.Current >= schema.Needed { // an older schema may lack the function
		err = pool.QueryRow(ctx, "select connect_oldest_program()").Scan(&schema.Oldest)
	}
	return schema, postgres.Wrap("database: schema", err)
}

// Newest returns the number of the newest migration that this program was built with.
func Newest() (int64, error) {
	known, err := ownFiles()
	if err != nil {
		return 0, err
	}
	return slices.Max(slices.Collect(maps.Keys(known))), nil
}
