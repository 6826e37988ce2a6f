package migrate_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/testing/pgtest"
)

const first = "0001_clock_and_turns.sql"

// edited returns the migrations with a comment behind the first one.
func edited(t *testing.T) fstest.MapFS {
	t.Helper()
	files := pgtest.Migrations(t, nil)
	files[first].Data = append(files[first].Data, "-- edited\n"...)
	return files
}

// A database that other files made is refused in both directions, and stays as it is.
func TestEditedMigration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := pgtest.NewEmpty(t)
	if _, err := migrate.ApplyFrom(ctx, edited(t), db.URL, migrate.Up, time.Minute); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "delete from goose_db_version where version_id = (select max(version_id) from goose_db_version)") // one is pending
	before := pgtest.Value[int](t, db, "select count(*) from goose_db_version")
	for _, target := range []migrate.Target{migrate.Up, 0} {
		done, err := migrate.Apply(ctx, db.URL, target)
		if err == nil || !strings.Contains(err.Error(), "differ from those of this program: "+first) || len(done) != 0 {
			t.Errorf("to %d: %v, %v", target, done, err)
		}
	}
	if after := pgtest.Value[int](t, db, "select count(*) from goose_db_version"); after != before {
		t.Errorf("%d migrations applied, were %d", after, before)
	}
	if _, err := migrate.SchemaOf(ctx, db.Pool); err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("SchemaOf: %v", err)
	}
	status, err := migrate.Status(ctx, db.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range status {
		if m.Differs != (m.Name == first) {
			t.Errorf("status: %+v", m)
		}
	}
}

// The numbers of the rows begin anew on a cluster that release 1.0.0 has distributed. It can be upgraded.
func TestRowsAreNumberedAnew(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "select setval(pg_get_serial_sequence('goose_db_version', 'id'), 1, false)")
	files := pgtest.Migrations(t, map[string]string{
		"9001_one.sql": "-- +goose Up\nselect 1;\n-- +goose Down\nselect 1;\n",
		"9002_two.sql": "-- +goose Up\nselect 1;\n-- +goose Down\nselect 1;\n",
	})
	if done, err := migrate.ApplyFrom(context.Background(), files, db.URL, migrate.Up, time.Minute); err != nil || len(done) != 2 {
		t.Errorf("%v, %v", done, err)
	}
}

// A database of a program that stored no checksums cannot be told apart from others: its schema had the same numbers.
func TestMigratedBeforeChecksums(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := pgtest.NewEmpty(t)
	if _, err := migrate.Apply(ctx, db.URL, migrate.Up); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "alter table goose_db_version drop column checksum")
	const want = "before version 1.0.0"
	if _, err := migrate.Apply(ctx, db.URL, migrate.Up); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("up: %v", err)
	}
	if _, err := migrate.Status(ctx, db.URL); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("status: %v", err)
	}
	if _, err := migrate.SchemaOf(ctx, db.Pool); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("SchemaOf: %v", err)
	}
}
