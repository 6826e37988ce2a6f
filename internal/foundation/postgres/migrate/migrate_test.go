package migrate_test

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Every migration goes forward, back and forward again, and the way back leaves nothing.
func TestMigrate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := pgtest.NewEmpty(t)
	const objects = `select coalesce(string_agg(relname || '.' || relkind::text, ' ' order by relname), '') from pg_class
		where relnamespace = 'public'::regnamespace and relname not like 'goose%'`
	const types = `select count(*) from pg_type where typnamespace = 'public'::regnamespace and typname not like '%goose%'`
	const functions = `select count(*) from pg_proc where pronamespace = 'public'::regnamespace`

	checkVersion := func(pending bool) {
		t.Helper()
		schema, err := migrate.SchemaOf(ctx, db.Pool)
		if err != nil || schema.Needed == 0 || (schema.Current == schema.Needed) == pending {
			t.Errorf("SchemaOf = %+v, %v; want pending: %v", schema, err, pending)
		}
		if !pending && (schema.Oldest == 0 || schema.Oldest > schema.Needed) {
			t.Errorf("the oldest program is %d, of migrations up to %d", schema.Oldest, schema.Needed)
		}
	}
	checkVersion(true)
	up, err := migrate.Apply(ctx, db.URL, migrate.Up)
	if err != nil || len(up) == 0 {
		t.Fatalf("up: %v, %v", up, err)
	}
	checkVersion(false)
	first := pgtest.Value[string](t, db, objects)

	if again, err := migrate.Apply(ctx, db.URL, migrate.Up); err != nil || len(again) != 0 {
		t.Errorf("up again: %v, %v", again, err)
	}
	for i := len(up) - 1; i >= 0; i-- {
		down, err := migrate.Apply(ctx, db.URL, migrate.Target(up[i].Version-1))
		if diff := cmp.Diff([]migrate.Migration{up[i]}, down); err != nil || diff != "" {
			t.Fatalf("down: %v (-want +got):\n%s", err, diff)
		}
		checkVersion(true)
	}
	if below, err := migrate.Apply(ctx, db.URL, 0); err != nil || len(below) != 0 {
		t.Errorf("down below the first: %v, %v", below, err)
	}
	if left := pgtest.Value[string](t, db, objects); left != "" {
		t.Errorf("left after all the way down: %s", left)
	}
	if n := pgtest.Value[int](t, db, types) + pgtest.Value[int](t, db, functions); n != 0 {
		t.Errorf("types and functions left after all the way down: %d", n)
	}
	if _, err := migrate.Apply(ctx, db.URL, migrate.Up); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, pgtest.Value[string](t, db, objects)); diff != "" {
		t.Errorf("the second way up differs (-first +second):\n%s", diff)
	}
}

// A migration that is not one transaction runs again if it was broken off, forward and back, also just before it was noted.
func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	all, files := pgtest.Migrations(t, nil), fstest.MapFS{}
	names := slices.Sorted(maps.Keys(all))
	apply := func(target migrate.Target) (version int64) {
		t.Helper()
		done, err := migrate.ApplyFrom(t.Context(), files, db.URL, target, wait.Limit)
		if err != nil || len(done) != 1 {
			t.Fatalf("%v, %v", done, err)
		}
		return done[0].Version
	}
	again := 0
	for _, name := range names {
		files[name] = all[name]
		version := apply(migrate.Up)
		if bytes.Contains(all[name].Data, []byte("-- +goose NO TRANSACTION")) {
			again++
			db.Exec(t, "delete from goose_db_version where version_id = $1", version)
			apply(migrate.Up)
		}
	}
	if again == 0 {
		t.Error("each migration is one transaction")
	}
	for i, name := range slices.Backward(names) {
		checksum := pgtest.Value[string](t, db, "select checksum from goose_db_version order by version_id desc limit 1")
		version := apply(migrate.Target(i))
		if bytes.Contains(all[name].Data, []byte("-- +goose NO TRANSACTION")) {
			db.Exec(t, "insert into goose_db_version (version_id, is_applied, checksum) values ($1, true, $2)", version, checksum)
			apply(migrate.Target(i))
		}
	}
}

func TestMigrateAtTheSameTime(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	var applied [2][]migrate.Migration
	var wg sync.WaitGroup
	for i := range applied {
		wg.Go(func() {
			var err error
			if applied[i], err = migrate.Apply(context.Background(), db.URL, migrate.Up); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	status, err := migrate.Status(context.Background(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(applied[0]) + len(applied[1]); got != len(status) || got == 0 {
		t.Errorf("two programs applied %d migrations of %d", got, len(status))
	}
	for _, m := range status {
		if m.AppliedAt.IsZero() || m.Name == "" {
			t.Errorf("status: %+v", m)
		}
	}
}

// A program rolls back none of its own migrations while one of a newer program is applied.
func TestDownByAnOlderProgram(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := pgtest.New(t)
	db.Exec(t, "insert into goose_db_version (version_id, is_applied) values (9001, true)")
	const want = "the database is at migration 9001, which this program does not have: run the newer program that applied it"
	if done, err := migrate.Apply(ctx, db.URL, 0); err == nil || err.Error() != want || len(done) != 0 {
		t.Errorf("Apply = %v, %v", done, err)
	}
	if _, err := migrate.Applied(ctx, db.URL); err == nil || err.Error() != want {
		t.Errorf("Applied: %v", err)
	}
	db.Exec(t, "delete from goose_db_version where version_id = 9001")
	newest, err := migrate.Newest()
	if err != nil {
		t.Fatal(err)
	}
	if applied, err := migrate.Applied(ctx, db.URL); err != nil || len(applied) != int(newest) || applied[0].Version != newest || applied[0].Name == "" {
		t.Errorf("Applied = %+v, %v", applied, err)
	}
	if applied, err := migrate.Applied(ctx, pgtest.NewEmpty(t).URL); err != nil || len(applied) != 0 {
		t.Errorf("Applied of an empty database = %+v, %v", applied, err)
	}
}

// A migration that waits for the lock of a table holds up others for a moment at first, and then for longer.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := pgtest.New(t)
	db.Exec(t, "create table waited (attempt serial, timeout text)")
	files := pgtest.Migrations(t, map[string]string{"9001_next.sql": "-- +goose NO TRANSACTION\n-- +goose Up\n" +
		"insert into waited (timeout) values (current_setting('lock_timeout'));\nalter table users add column next_release text;\n-- +goose Down\n"})
	holder, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(ctx) }()
	if _, err := holder.Exec(ctx, "lock table users in access share mode"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := migrate.ApplyFrom(ctx, files, db.URL, migrate.Up, wait.Limit)
		done <- err
	}()
	wait.Until(t, "the migration tries again", func() bool {
		return len(done) > 0 || pgtest.Value[int](t, db, "select count(*) from waited") == 3
	})
	if err := holder.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := pgtest.Value[string](t, db, "select string_agg(timeout, ' ' order by attempt) from waited where attempt <= 3")
	if want := "50ms 100ms 200ms"; got != want {
		t.Errorf("the migration waited for %s, want %s", got, want)
	}
}

func TestMigrationStatusPending(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	status, err := migrate.Status(context.Background(), db.URL)
	if err != nil || len(status) == 0 {
		t.Fatalf("%v, %v", status, err)
	}
	var last int64
	for _, m := range status {
		if !m.AppliedAt.IsZero() || m.Version <= last {
			t.Errorf("status: %+v after version %d", m, last)
		}
		last = m.Version
	}
}

// Former names of time zones are replaced a thousand users at a time. Users of other parts sign in and are changed meanwhile, also if all have one
// such name.
func TestTimeZonesLockAFewUsers(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	for _, target := range []migrate.Target{migrate.Up, 16} {
		if _, err := migrate.Apply(t.Context(), db.URL, target); err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select ('11111111-1111-4111-8111-' || lpad(n::text, 12, '0'))::uuid, n || '@example.com', 'Asia/Calcutta', '2026-01-31', now() from generate_series(1, 5000) n`)
	lock := func(order string) pgx.Tx {
		tx, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		if _, err := tx.Exec(t.Context(), "select 1 from users where user_id = (select user_id from users order by user_id "+order+" limit 1) for no key update nowait"); err != nil {
			t.Errorf("the user %s: %v", order, err)
		}
		return tx
	}
	held := lock("desc")
	ended := make(chan error, 1)
	go func() {
		_, err := migrate.Apply(context.WithoutCancel(t.Context()), db.URL+"&lock_timeout=0", migrate.Up)
		ended <- err
	}()
	wait.Until(t, "the migration waits for the last user", func() bool {
		return pgtest.Value[int](t, db, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") > 0
	})
	_ = lock("asc").Rollback(t.Context())
	_ = held.Rollback(t.Context())
	if err := wait.For(t, "the migration ends", ended); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from users where timezone = 'Asia/Kolkata'"); n != 5000 {
		t.Errorf("%d users have the canonical name", n)
	}
}

// A constraint is added without a look at the rows, and they are looked at afterwards, while others write. Otherwise nobody writes a large table
// for as long as PostgreSQL reads it. Migrations of 1.0.0 made their tables.
func TestConstraintsLockForAMoment(t *testing.T) {
	t.Parallel()
	adds := regexp.MustCompile(`(?s)\balter table [^;]*? add constraint [^;]*;`)
	found := 0
	for name, file := range pgtest.Migrations(t, nil) {
		for _, statement := range adds.FindAllString(string(file.Data), -1) {
			if found++; !strings.Contains(statement, " not valid") {
				t.Errorf("%s: %s", name, statement)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d constraints", found)
	}
}
