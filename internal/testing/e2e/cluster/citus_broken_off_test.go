//go:build citus

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"connect-svc/migrations"
)

// distributing is the environment variable that makes a test distribute a database, as a process that can be killed.
const distributing = "CONNECT_TEST_DISTRIBUTE"

// moments are conditions in the order in which they become true while Citus copies a table that is written to.
var moments = []string{"true", "exists (select from pg_publication)", "exists (select from pg_replication_slots)", "exists (select from pg_subscription)"}

// kind is the part of a step that others share.
var kind = regexp.MustCompile(`^(?:(select \w+|delete)|alter table \w+ (\w+)).*?(: commit)?$`)

// A step can be broken off within itself, in each way, and the next call continues.
func TestDistributeBrokenOffOnACluster(t *testing.T) {
	if url := os.Getenv(distributing); url != "" {
		if err := citus.Distribute(t.Context(), url, 4, func(string, time.Duration) {}); err != nil {
			t.Fatal(err)
		}
		return
	}
	crash := func(node int) func(*testing.T, *pgtest.DB, int, *exec.Cmd, func()) {
		return func(t *testing.T, db *pgtest.DB, _ int, _ *exec.Cmd, end func()) { restart(t, db.URLs[node], end) }
	}
	for _, way := range []struct {
		name string
		each bool // step, or else one of each kind
		many int  // at least
		off  func(t *testing.T, db *pgtest.DB, pid int, command *exec.Cmd, end func())
	}{
		{"the backend is terminated", true, 60, func(t *testing.T, db *pgtest.DB, pid int, _ *exec.Cmd, end func()) {
			pgtest.Value[bool](t, db, "select pg_terminate_backend($1::int)", pid)
			end()
		}},
		{"the command is killed", true, 60, func(t *testing.T, _ *pgtest.DB, _ int, command *exec.Cmd, end func()) {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			end()
		}},
		{"a worker crashes", false, 5, crash(1)},
		{"the coordinator crashes", false, 5, crash(0)},
	} {
		t.Run(way.name, func(t *testing.T) {
			db := pgtest.NewCluster(t, true)
			user := db.User(t)
			db.Exec(t, "insert into daily_steps select $1, '1990-01-01'::date + n, n from generate_series(1, 12000) n", user.ID)
			stored := rows(t, db)
			done := map[string]int{}
			for finished, calls := false, 1; !finished; calls++ {
				name := fmt.Sprintf("distributing-%d", calls)
				command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDistributeBrokenOffOnACluster$")
				command.Env = append(os.Environ(), distributing+"="+db.URLs[0]+"&application_name="+name)
				var output bytes.Buffer
				command.Stdout, command.Stderr = &output, &output
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- command.Wait() }()
				watch, before := session(t, db.URLs[0]), ""
				for broken := false; !finished && !broken; {
					select {
					case err := <-ended:
						if finished = err == nil; !finished {
							t.Fatalf("it ended by itself after %v: %s", done, &output)
						}
					default:
						pid, step := stepOf(t, watch, name)
						if step == "commit" {
							step = before + ": commit"
						} else if step != "" {
							before = step
						}
						if !way.each {
							step = kind.ReplaceAllString(step, "$1$2$3")
						}
						moment, last := moments[min(done[step], len(moments)-1)], 1
						if strings.Contains(step, "concurrently") {
							last = len(moments)
						}
						if step == "" || done[step] == last || !pgtest.Value[bool](t, db, "select "+moment) {
							continue
						}
						done[step]++
						way.off(t, db, pid, command, func() { _ = wait.For(t, "the command ends", ended) })
						if broken = true; !way.each {
							db.Pool = db.Open(t) // a crash broke its connections
						}
					}
				}
				_ = watch.Close(t.Context())
			}
			if t.Logf("broken off in %d places", len(done)); len(done) < way.many {
				t.Errorf("at least %d were wanted: %q", way.many, slices.Sorted(maps.Keys(done)))
			}
			isWhole(t, db)
			if diff := cmp.Diff(stored, rows(t, db)); diff != "" {
				t.Errorf("rows (-before +after):\n%s", diff)
			}
		})
	}
}

// stepOf returns the step that a call is taking, and its backend.
func stepOf(t *testing.T, watch *pgx.Conn, name string) (pid int, step string) {
	t.Helper()
	err := watch.QueryRow(t.Context(), `select pid, trim(query) from pg_stat_activity where datname = current_database()
		and application_name = $1 and state = 'active' and query ~* '^ *(select (create|citus|truncate)_|alter|delete|commit)'`, name).Scan(&pid, &step)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return pid, step
}

// rows counts the rows of each table.
func rows(t *testing.T, db *pgtest.DB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, table := range migrations.Tables() {
		counts[table] = pgtest.Value[int](t, db, "select count(*)::int from "+table)
	}
	return counts
}

// faultsOfNode are shards that a node lacks, that are not like their table, or that belong to nothing, and what else is left.
const faultsOfNode = `with placed as (
	select logicalrelid as whole, name, to_regclass(name) as shard from pg_dist_shard join pg_dist_placement using (shardid),
		shard_name(logicalrelid, shardid) as name where groupid = (select groupid from pg_dist_local_group)
)
select 'lacks the shard ' || name from placed where shard is null
union all select 'has other constraints on the shard ' || name from placed where shard is not null
	and (select count(*) from pg_constraint where conrelid = shard and convalidated)
		<> (select count(*) from pg_constraint where conrelid = whole and convalidated)
union all select 'has other indexes on the shard ' || name from placed where shard is not null
	and (select count(*) from pg_index where indrelid = shard and indisvalid) <> (select count(*) from pg_index where indrelid = whole and indisvalid)
union all select 'has the table ' || relname || ', which belongs to nothing' from pg_class
	where relnamespace = 'public'::regnamespace and relkind = 'r' and relname ~ '_[0-9]{6,}$' and oid not in (select shard from placed where shard is not null)
union all select 'has the publication ' || pubname from pg_publication
union all select 'has the subscription ' || subname from pg_subscription join pg_database d on d.oid = subdbid where datname = current_database()
union all select 'has the replication slot ' || slot_name from pg_replication_slots where database = current_database()
union all select 'has the prepared transaction ' || gid from pg_prepared_xacts where database = current_database()
order by 1`

// isWhole tells whether each table is where it goes, on each node, and nothing is left of what was broken off.
func isWhole(t *testing.T, db *pgtest.DB) {
	t.Helper()
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Errorf("again: %s", step) }); err != nil {
		t.Error(err)
	}
	kinds := map[string]string{}
	for _, table := range migrations.ShardedTables {
		kinds[table.Name] = "distributed"
	}
	for _, table := range migrations.ReferenceTables {
		kinds[table] = "reference"
	}
	for _, table := range migrations.CoordinatorTables {
		kinds[table] = "local"
	}
	if diff := cmp.Diff(kinds, pgtest.Value[map[string]string](t, db, "select json_object_agg(table_name, citus_table_type) from citus_tables")); diff != "" {
		t.Errorf("the kinds of tables (-want +got):\n%s", diff)
	}
	if n := pgtest.Value[int](t, db, `select count(*)::int from pg_constraint join pg_dist_partition on logicalrelid = conrelid
		where contype = 'f' and convalidated`); n != len(migrations.ForeignKeys) {
		t.Errorf("%d of %d foreign keys", n, len(migrations.ForeignKeys))
	}
	for n, url := range db.URLs {
		node := session(t, url)
		if _, err := node.Exec(t.Context(), "set citus.override_table_visibility = off; set citus.enable_ddl_propagation = off", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		var faults []string
		t.Cleanup(func() {
			if len(faults) > 0 {
				t.Errorf("node %d %s", n, strings.Join(faults, "; "))
			}
		})
		wait.Until(t, fmt.Sprintf("node %d is whole", n), func() bool { // Citus removes in the background what it could not remove at once
			db.Exec(t, "call citus_cleanup_orphaned_resources()")
			found, err := node.Query(t.Context(), faultsOfNode)
			if err == nil {
				faults, err = pgx.CollectRows(found, pgx.RowTo[string])
			}
			if err != nil {
				t.Fatal(err)
			}
			return len(faults) == 0
		})
		// Citus may have missed a role that was just being created (docs/scaling.md). Another database's copy would meet it.
		if _, err := node.Exec(t.Context(), `do $$ declare left_over name; begin
			for left_over in select rolname from pg_roles where rolname like 'citus\_shard\_split\_subscription\_role\_%' loop
				execute format('drop role %I', left_over);
			end loop; end $$`); err != nil {
			t.Error(err)
		}
	}
}

// Tables of the operator that refer to the service's are named before anything is done.
func TestDistributeBesideOwnTablesOnACluster(t *testing.T) {
	db := pgtest.NewCluster(t, true)
	db.Exec(t, "create table notes (user_id uuid references users)")
	db.Exec(t, "create function shout() returns trigger language plpgsql as 'begin return new; end'")
	db.Exec(t, "create trigger loud before insert on clients for each row execute function shout()")
	err := citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Errorf("a step: %s", step) })
	for _, named := range []string{"table notes has the foreign key notes_user_id_fkey to users", "table clients has the trigger loud"} {
		if err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("the error does not name %q: %v", named, err)
		}
	}
	db.Exec(t, "drop table notes")
	db.Exec(t, "drop trigger loud on clients")
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(string, time.Duration) {}); err != nil {
		t.Error(err)
	}
}

// A step that has to wait for a lock names who has it and lets others pass for several times as long. One that is interrupted is ended
// or has finished, and the error says which.
func TestDistributeMakesWayOnACluster(t *testing.T) {
	db := pgtest.NewCluster(t, true)
	dump := session(t, db.URLs[0]+"&application_name=dump")
	if _, err := dump.Exec(t.Context(), "begin; lock table users in access share mode", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	told, ended := make(chan string, 100), make(chan error, 1)
	distribute := func(ctx context.Context) {
		ended <- citus.Distribute(ctx, db.URLs[0], 4, func(step string, _ time.Duration) { told <- step })
	}
	go distribute(ctx)
	made := fmt.Sprintf(": makes way for backend %d of postgres (dump)", dump.PgConn().PID())
	for step := ""; !strings.HasSuffix(step, made); step = wait.For(t, "it makes way", told) {
		t.Log(step)
	}
	interrupt()
	if err := wait.For(t, "it ends", ended); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("interrupted while it makes way: %v", err)
	}

	ctx, interrupt = context.WithCancel(t.Context())
	defer interrupt()
	go distribute(ctx)
	_ = wait.For(t, "it makes way again", told)
	wait.Until(t, "it is in a step", func() bool {
		return pgtest.Value[bool](t, db, "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like 'alter table%')")
	})
	interrupt()
	if err := wait.For(t, "it ends", ended); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("interrupted within a step: %v", err)
	}
	if _, err := dump.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}

	ctx, interrupt = context.WithCancel(t.Context())
	if err := citus.Distribute(ctx, db.URLs[0], 4, func(step string, _ time.Duration) {
		if strings.HasPrefix(step, "users: shard") {
			interrupt()
		}
	}); err == nil || !strings.Contains(err.Error(), "is finished") {
		t.Errorf("interrupted at the end of a step: %v", err)
	}
	if _, err := app.Reconcile(t.Context(), db.Pool, nil, nil); err == nil || !strings.Contains(err.Error(), "run connect-svc migrate distribute") {
		t.Errorf("a reconciliation in between: %v", err)
	}
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(string, time.Duration) {}); err != nil {
		t.Error(err)
	}

	// A lock on another node is not waited for any longer.
	db.Define(t, "alter table known_browsers drop constraint known_browsers_user_id_fkey")
	user, writer := db.User(t), session(t, db.URLs[1])
	if _, err := writer.Exec(t.Context(), "begin; update users set timezone = 'UTC' where user_id = '"+user.ID.String()+"'", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt = context.WithCancel(t.Context())
	defer interrupt()
	told = make(chan string, 100)
	go distribute(ctx)
	if step := wait.For(t, "it makes way", told); !strings.HasSuffix(step, ": makes way for a statement on another node") {
		t.Errorf("beside a writer at another node: %s", step)
	}
	if _, err := writer.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "it ends", ended); err != nil {
		t.Error(err)
	}
}
