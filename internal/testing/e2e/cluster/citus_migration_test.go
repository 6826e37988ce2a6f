//go:build citus

package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"connect-svc/migrations"
)

// A release upgrades a cluster as docs/upgrade.md says, with what CONTRIBUTING.md allows: a column, a table that refers to users, an index
// that is built while the table is written to, and a function. All of it can be taken back.
func TestMigrateOnACluster(t *testing.T) {
	files := pgtest.Migrations(t, map[string]string{
		"9001_column.sql": "-- +goose Up\nalter table daily_steps add column floors integer not null default 0;\n" +
			"-- +goose Down\nalter table daily_steps drop column floors;\n",
		"9002_table.sql": "-- +goose Up\ncreate table goals (user_id uuid primary key references users on delete cascade, steps integer not null);\n" +
			"-- +goose Down\ndrop table goals;\n",
		"9003_index.sql": "-- +goose NO TRANSACTION\n-- +goose Up\nset lock_timeout = '1min';\ndrop index concurrently if exists daily_steps_floors;\n" +
			"create index concurrently daily_steps_floors on daily_steps (user_id, floors);\nreset lock_timeout;\n" +
			"-- +goose Down\ndrop index concurrently if exists daily_steps_floors;\n",
		"9004_function.sql": "-- +goose Up\ncreate function doubled(integer) returns integer language sql immutable as 'select 2 * $1';\n" +
			"-- +goose Down\ndrop function doubled;\n",
	})
	db := pgtest.New(t)
	user := db.User(t)
	db.Exec(t, "insert into daily_steps (user_id, date, steps) values ($1, '2026-01-01', 7)", user.ID)
	if _, err := migrate.ApplyFrom(t.Context(), files, db.URLs[0], migrate.Up, wait.Limit); err != nil {
		t.Fatal(err)
	}
	migrations.ShardedTables = append(migrations.ShardedTables, migrations.ShardedTable{Name: "goals", Column: "user_id", Leader: "users"})
	migrations.ForeignKeys = append(migrations.ForeignKeys, migrations.ForeignKey{Table: "goals", Columns: "user_id", RefersTo: "users", Cascade: "on delete cascade"})
	t.Cleanup(func() {
		migrations.ShardedTables = migrations.ShardedTables[:len(migrations.ShardedTables)-1]
		migrations.ForeignKeys = migrations.ForeignKeys[:len(migrations.ForeignKeys)-1]
	})
	db.Exec(t, "update goose_db_version set version_id = -version_id where version_id > 9000") // of another program
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Log(step) }); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "update goose_db_version set version_id = -version_id where version_id < -9000")
	// The new table is where its users are. Every node knows all of it, and the rows go with their user.
	if shards := pgtest.Value[int](t, db, `select count(*)::int from pg_dist_partition a join pg_dist_partition b using (colocationid)
		where a.logicalrelid = 'goals'::regclass and b.logicalrelid = 'users'::regclass and a.partmethod = 'h'`); shards != 1 {
		t.Error("the new table is not sharded with users")
	}
	for _, url := range db.URLs {
		conn := session(t, url)
		if _, err := conn.Exec(t.Context(), "insert into goals values ($1, 1) on conflict (user_id) do update set steps = doubled(goals.steps)", user.ID); err != nil {
			t.Error(err)
		}
		if _, err := conn.Exec(t.Context(), "update daily_steps set floors = floors + 1 where user_id = $1", user.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := db.Pool.Exec(t.Context(), "insert into goals values ($1, 1)", uuid.New()); err == nil {
		t.Error("a row of nobody is stored")
	}
	if got := pgtest.Value[int](t, db, "select g.steps * s.floors from goals g join daily_steps s using (user_id) where user_id = $1", user.ID); got != 12 {
		t.Errorf("read %d, want 4 × 3", got)
	}
	db.Exec(t, "delete from users where user_id = $1", user.ID)
	if left := pgtest.Value[int](t, db, "select count(*)::int from goals"); left != 0 {
		t.Errorf("%d rows are left of a deleted user", left)
	}
	if _, err := migrate.ApplyFrom(t.Context(), files, db.URLs[0], 9000, wait.Limit); err != nil {
		t.Fatal(err)
	}
}

// Before an upgrade of a cluster, check says that the new tables are to be distributed.
func TestCheckBeforeAnUpgradeOnACluster(t *testing.T) {
	db := pgtest.New(t)
	check := func() (found error) {
		app.Check(t.Context(), app.Config{Database: settings.Database{DatabaseURL: db.URLs[0]}}, func(check, _ string, err error) {
			if check == "cluster" {
				found = err
			}
		})
		return found
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Apply(t.Context(), db.URLs[0], 10); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "connect-svc migrate distribute") {
		t.Errorf("check: %v", err)
	}
}
