package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/migrations"
)

type file struct{ name, checksum string }

var ownFiles = sync.OnceValues(func() (map[int64]file, error) { return readFiles(migrations.Files) })

// readFiles returns the migrations of a program by version. The checksum of a file is its SHA-256 in hexadecimal.
func readFiles(files fs.FS) (map[int64]file, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	known := map[int64]file{}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		sum := sha256.Sum256(text)
		known[version] = file{name, hex.EncodeToString(sum[:])}
	}
	return known, nil
}

// Sum identifies the schema that this program's migrations make.
func Sum() (string, error) {
	known, err := ownFiles()
	sum := sha256.Sum256(fmt.Append(nil, known)) // in the order of their numbers
	return hex.EncodeToString(sum[:]), err
}

// store is goose's table of applied migrations. It also has the checksum of each file, written by the transaction of its migration. A migration
// that is not one transaction says itself that it has begun, in either direction: it is not applied, and on the way down there is something left.
type store struct {
	database.Store
	known map[int64]file
	up    bool
}

// ListMigrations implements [database.Store].
func (s store) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	list, err := s.Store.ListMigrations(ctx, db)
	return slices.DeleteFunc(list, func(m *database.ListMigrationsResult) bool { return s.up && !m.IsApplied }), err
}

// CreateVersionTable implements [database.Store].
func (s store) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	if err := s.Store.CreateVersionTable(ctx, db); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "alter table goose_db_version add column checksum text")
	return err
}

// Insert implements [database.Store].
func (s store) Insert(ctx context.Context, db database.DBTxConn, applied database.InsertRequest) error {
	// until 1.3.0: Citus gave the table a new sequence if release 1.0.0 distributed it.
	_, err := db.ExecContext(ctx, "select setval(pg_get_serial_sequence('goose_db_version', 'id'), max(id)) from goose_db_version")
	if err == nil {
		err = s.Store.Insert(ctx, db, applied)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "update goose_db_version set checksum = $1 where version_id = $2", s.known[applied.Version].checksum, applied.Version)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "delete from goose_db_version where version_id = $1 and not is_applied", applied.Version)
	}
	return err
}

type applied struct {
	Checksum string
	At       time.Time // zero if the migration was broken off
}

// selectApplied returns what was applied by version, as JSON. It fails with an undefined table if no program has migrated the database, and
// (until 1.3.0) with an undefined column if one before 1.0.0 has.
const selectApplied = `select coalesce(json_object_agg(version_id, json_build_object('Checksum', coalesce(checksum, ''),
	'At', case when is_applied then tstamp at time zone 'UTC' end) order by is_applied) filter (where version_id > 0), '{}')::text from goose_db_version`

// readApplied decodes the result of selectApplied. Without the table no migration is applied.
func readApplied(text string, err error) (map[int64]applied, error) {
	applied := map[int64]applied{}
	switch {
	case postgres.Is(err, postgres.UndefinedTable):
		return applied, nil
	case postgres.Is(err, postgres.UndefinedColumn):
		return nil, Misfit("database: a program before version 1.0.0 migrated it, and this one cannot upgrade it: create it anew")
	case err == nil:
		err = json.Unmarshal([]byte(text), &applied)
	}
	return applied, postgres.Wrap("database: applied migrations", err)
}

// checkApplied returns an error if the database was migrated with other files than those of this program. It ignores the migrations of
// later programs.
func checkApplied(known map[int64]file, applied map[int64]applied) error {
	var differ []string
	for version, m := range applied {
		if own, ok := known[version]; ok && !m.At.IsZero() && own.checksum != m.Checksum {
			differ = append(differ, own.name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return Misfit("database: its migrations differ from those of this program: " + strings.Join(differ, ", ") +
		": run the program that migrated it, or create the database anew")
}
