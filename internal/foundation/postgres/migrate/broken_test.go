package migrate_test

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// shape is the schema: columns, constraints and indexes.
const shape = `select string_agg(line, E'\n' order by line) from (
	select table_name || '.' || column_name || ' ' || data_type as line from information_schema.columns where table_schema = 'public'
	union all select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
		where connamespace = 'public'::regnamespace and contype <> 'n'
	union all select indisvalid || ' ' || pg_get_indexdef(indexrelid) from pg_index join pg_class on oid = indrelid where relnamespace = 'public'::regnamespace
) of`

// A migration that is not one transaction and was broken off, in either direction, is done again on the way up and undone on the way down.
// An operator whose upgrade ends with a lock timeout may well turn back, and one whose way back ends so may stay.
func TestBrokenOffAndTurnedBack(t *testing.T) {
	t.Parallel()
	// The table whose lock is not to be had, on the way up and down: it is the last one that the migration changes; empty: it locks none.
	tables := map[string][2]string{
		"0014_columns.sql":     {"servers", "servers"},
		"0015_checks.sql":      {"webhook_events", "connections"},
		"0016_checks_hold.sql": {"user_addresses", "connections"},
		"0017_time_zones.sql":  {"users", ""},
		"0018_indexes.sql":     {"grant_directory", "client_errors"},
	}
	db := pgtest.NewEmpty(t)
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("lock_timeout", "0")
	address.RawQuery = query.Encode()
	all, files := pgtest.Migrations(t, nil), fstest.MapFS{}
	apply := func(target migrate.Target) (done []string) {
		t.Helper()
		list, err := migrate.ApplyFrom(t.Context(), files, db.URL, target, wait.Limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			done = append(done, m.Name)
		}
		return done
	}
	breakOff := func(target migrate.Target, table string) {
		t.Helper()
		holder, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = holder.Rollback(t.Context()) }()
		if _, err := holder.Exec(t.Context(), "lock table "+table+" in access exclusive mode"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := migrate.ApplyFrom(t.Context(), files, address.String(), target, wait.Limit)
			ended <- err
		}()
		const waiting = " from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
		wait.Until(t, "the migration waits", func() bool { return pgtest.Value[int](t, db, "select count(*)"+waiting) > 0 })
		status, err := migrate.Status(t.Context(), db.URL) // waits for nobody
		if err != nil || !status[len(files)-1].AppliedAt.IsZero() {
			t.Errorf("status meanwhile: %+v, %v", status, err)
		}
		_ = pgtest.Value[int](t, db, "select count(pg_terminate_backend(pid))"+waiting)
		if err := <-ended; err == nil {
			t.Fatal("it was not broken off")
		}
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		files[name] = all[name]
		apply(migrate.Up)
		if !bytes.Contains(all[name].Data, []byte("-- +goose NO TRANSACTION")) {
			continue
		}
		if _, ok := tables[name]; !ok {
			t.Fatalf("%s: name the tables that it changes last", name)
		}
		whole := pgtest.Value[string](t, db, shape)
		apply(migrate.Target(i))
		without := pgtest.Value[string](t, db, shape)
		for direction, way := range []struct {
			name         string
			broken, back migrate.Target
			want         string
		}{
			{"up", migrate.Up, migrate.Target(i), without},
			{"down", migrate.Target(i), migrate.Up, whole},
		} {
			if tables[name][direction] == "" {
				continue
			}
			breakOff(way.broken, tables[name][direction])
			if direction == 0 {
				delete(files, name) // an older program neither has it nor minds it
				apply(migrate.Up)
				files[name] = all[name]
			}
			if schema, err := migrate.SchemaOf(t.Context(), db.Pool); err != nil || schema.Current != int64(i) {
				t.Errorf("%s on the way %s: the schema is %+v, %v", name, way.name, schema, err)
			}
			if done := apply(way.back); !slices.Equal(done, []string{name}) {
				t.Errorf("%s on the way %s, and back: %q was done", name, way.name, done)
			}
			if diff := cmp.Diff(way.want, pgtest.Value[string](t, db, shape)); diff != "" {
				t.Errorf("%s, broken off on the way %s, and back (-want +got):\n%s", name, way.name, diff)
			}
			apply(migrate.Up)
		}
	}
	if n := pgtest.Value[int](t, db, "select count(*) - count(distinct version_id) from goose_db_version where is_applied"); n != 0 {
		t.Errorf("%d migrations are noted twice", n)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from goose_db_version where not is_applied"); n != 0 {
		t.Errorf("%d migrations are noted as broken off", n)
	}
}
