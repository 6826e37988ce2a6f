//go:build citus

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres/citus"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// distributing is the environment variable that makes a test distribute a database, as a process that can be killed.
const distributing = "CONNECT_TEST_DISTRIBUTE"

// moments are conditions in the order in which they become true while Citus copies a table that is written to.
var moments = []string{"true", "exists (select from pg_publication)", "exists (select from pg_replication_slots)", "exists (select from pg_subscription)"}

var function = regexp.MustCompile(`^select (\w+)`)

// A step can be broken off within itself, in each way, and the next call continues.
func TestDistributeBrokenOffOnACluster(t *testing.T) {
	if url := os.Getenv(distributing); url != "" {
		if err := citus.Distribute(t.Context(), url, 4, func(string, time.Duration) {}); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, way := range []struct {
		name string
		each bool // step, or else one of each kind
		off  func(t *testing.T, db *pgtest.DB, pid int, command *exec.Cmd, ended <-chan error)
	}{
		{"the backend is terminated", true, func(t *testing.T, db *pgtest.DB, pid int, _ *exec.Cmd, ended <-chan error) {
			pgtest.Value[bool](t, db, "select pg_terminate_backend($1::int)", pid)
			_ = wait.For(t, "the command ends", ended)
		}},
		{"the command is killed", true, func(t *testing.T, _ *pgtest.DB, _ int, command *exec.Cmd, ended <-chan error) {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = wait.For(t, "the command ends", ended)
		}},
		{"a node crashes", false, func(t *testing.T, db *pgtest.DB, _ int, _ *exec.Cmd, ended <-chan error) {
			restart(t, db.URLs[1], func() { _ = wait.For(t, "the command ends", ended) })
			for _, url := range db.URLs {
				if _, err := session(t, url).Exec(t.Context(), "select recover_prepared_transactions()"); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			db := pgtest.NewUndistributed(t)
			user := db.User(t)
			db.Exec(t, "insert into daily_steps select $1, '1990-01-01'::date + n, n from generate_series(1, 12000) n", user.ID)
			done := map[string]int{}
			for finished := false; !finished; {
				command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDistributeBrokenOffOnACluster$")
				command.Env = append(os.Environ(), distributing+"="+db.URLs[0]+"&application_name=distributing")
				var output bytes.Buffer
				command.Stdout, command.Stderr = &output, &output
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- command.Wait() }()
				for broken := false; !finished && !broken; {
					select {
					case err := <-ended:
						if finished = err == nil; !finished {
							t.Fatalf("it ended by itself after %v: %s", done, &output)
						}
					default:
						pid, step := distributor(t, db)
						if !way.each {
							step = strings.Join(function.FindStringSubmatch(step), "")
						}
						moment, last := moments[min(done[step], len(moments)-1)], 1
						if strings.Contains(step, "concurrently") {
							last = len(moments)
						}
						if step == "" || done[step] == last || !pgtest.Value[bool](t, db, "select "+moment) {
							continue
						}
						done[step]++
						way.off(t, db, pid, command, ended)
						broken = true
					}
				}
			}
			t.Logf("broken off in %d steps", len(done))
			isWhole(t, db)
			if n := pgtest.Value[int](t, db, "select count(*)::int from daily_steps where user_id = $1", user.ID); n != 12000 {
				t.Errorf("%d of 12000 rows", n)
			}
		})
	}
}

// distributor returns the step that is being taken, without the values, and its backend.
func distributor(t *testing.T, db *pgtest.DB) (pid int, step string) {
	t.Helper()
	found := pgtest.Value[[]string](t, db, `select coalesce((select array[pid::text, query] from pg_stat_activity where datname = current_database()
		and application_name = 'distributing' and state = 'active'
		and query ~* '^ *(select (create|citus|truncate)_|alter|delete)'), array['0', ''])`)
	for _, digit := range found[0] {
		pid = 10*pid + int(digit-'0')
	}
	return pid, found[1]
}

// isWhole tells whether each table is where it goes, and nothing is left of what was broken off.
func isWhole(t *testing.T, db *pgtest.DB) {
	t.Helper()
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Errorf("again: %s", step) }); err != nil {
		t.Error(err)
	}
	kinds := pgtest.Value[[]string](t, db, `select array_agg(distinct concat(partmethod, repmodel)) from pg_dist_partition`)
	if !slices.Equal(kinds, []string{"hs", "ns", "nt"}) {
		t.Errorf("the kinds of tables: %q", kinds)
	}
	if n := pgtest.Value[int](t, db, `select count(*)::int from pg_constraint join pg_dist_partition on logicalrelid = conrelid
		where contype = 'f' and convalidated`); n != 18 {
		t.Errorf("%d of 18 foreign keys", n)
	}
	db.Exec(t, "call citus_cleanup_orphaned_resources()")
	for _, url := range db.URLs {
		var left int
		if err := session(t, url).QueryRow(t.Context(), `select (select count(*) from pg_publication) + (select count(*) from pg_subscription
			join pg_database d on d.oid = subdbid where datname = current_database())
			+ (select count(*) from pg_replication_slots where database = current_database())`).Scan(&left); err != nil {
			t.Error(err)
		} else if left > 0 {
			t.Errorf("%d publications, subscriptions and replication slots are left", left)
		}
	}
}

// Tables of the operator that refer to the service's are named before anything is done.
func TestDistributeBesideOwnTablesOnACluster(t *testing.T) {
	db := pgtest.NewUndistributed(t)
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
	db := pgtest.NewUndistributed(t)
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
	if err := citus.Distribute(ctx, db.URLs[0], 4, func(string, time.Duration) { interrupt() }); err == nil || !strings.Contains(err.Error(), "is finished") {
		t.Errorf("interrupted at the end of a step: %v", err)
	}
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(string, time.Duration) {}); err != nil {
		t.Error(err)
	}
}
