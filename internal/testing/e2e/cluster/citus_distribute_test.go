//go:build citus

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/testing/pgtest"
)

// One PostgreSQL with data and traffic becomes a cluster, and the one who does it may be cut off at any step.
func TestDistributeUnderLoad(t *testing.T) {
	db := pgtest.NewCluster(t, true)
	f := newFleet(t, db)
	many := db.User(t)
	db.Exec(t, "insert into daily_steps select $1, '1990-01-01'::date + n, n from generate_series(1, 12000) n", many.ID)
	db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@many.example', 'UTC', '2020-01-01', now() from generate_series(1, 12000) n`)
	db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 0, 'disconnected', 7, '2020-01-01', now(), 0, now() from users`, f.Partner.ID)
	l := f.newLoad(t, 6)
	l.await(500)
	l.report(t, "one PostgreSQL")
	steps, cut := 0, errors.New("cut off")
	for finished := false; !finished; {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := citus.Distribute(ctx, db.URLs[0], 4, func(step string, took time.Duration) {
			if took > 200*time.Millisecond {
				t.Logf("%s: %s", step, took.Round(time.Millisecond))
			}
			if steps++; steps%15 == 0 {
				cancel(cut)
			}
		})
		finished = err == nil
		if err != nil && context.Cause(ctx) != cut {
			t.Fatal(err)
		}
		cancel(nil)
	}
	answers := l.report(t, fmt.Sprintf("%d steps of distributing", steps))
	// No refresh and no read notices that a table is switched over. A batch may fail as a whole.
	if answers["refresh 500"]+answers["read 503"]+answers["read 401"] > 0 || 20*answers["write 500"] > answers["write 200"] {
		t.Errorf("too many faults")
	}
	l.await(300)
	l.report(t, "the cluster, by its coordinator")
	l.stop()
	for _, url := range db.URLs[1:] {
		f.join(t, url)
	}
	f.settle(t, l)
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Errorf("again: %s", step) }); err != nil {
		t.Error(err)
	}
	if n := pgtest.Value[int](t, db, "select count(*)::int from daily_steps where user_id = $1", many.ID); n != 12000 {
		t.Errorf("%d of 12000 rows", n)
	}
	if err := citus.Distribute(t.Context(), db.URLs[1], 4, func(string, time.Duration) {}); err == nil || !strings.Contains(err.Error(), "not its coordinator") {
		t.Errorf("on a worker: %v", err)
	}
}

// A cluster is whole only if each node has all that the service needs. The error names what a node lacks.
func TestNodeThatLacksSomethingOnACluster(t *testing.T) {
	db := pgtest.New(t)
	distribute := func() error {
		return citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Errorf("a step: %s", step) })
	}
	if err := distribute(); err != nil {
		t.Fatal(err)
	}
	node := session(t, db.URLs[1])
	for _, damage := range []string{
		"set citus.enable_ddl_propagation = off",
		"drop function add_counts(bigint[], bigint[])",
		"create or replace function is_active(status text) returns boolean language sql as 'select true'",
		"drop index connections_open",
		"revoke insert on users from current_user",
	} {
		if _, err := node.Exec(t.Context(), damage); err != nil {
			t.Fatal(err)
		}
	}
	var owner string
	if err := node.QueryRow(t.Context(), "select current_user::text").Scan(&owner); err != nil {
		t.Fatal(err)
	}
	err, checked := distribute(), checkOf(t, db)
	for _, named := range []string{
		"lacks the function add_counts(bigint[],bigint[]);", "has another function is_active(text);", "lacks the index connections_open;",
		"lacks the privilege to insert of " + owner + " on table users",
	} {
		if err == nil || !strings.Contains(err.Error(), named) || fmt.Sprint(err) != fmt.Sprint(checked) {
			t.Errorf("the error does not name the fault %q: %v; check says %v", named, err, checked)
		}
	}
	// The advice of the error cures it.
	config := node.Config()
	if _, err := session(t, db.URLs[0]).Exec(t.Context(), "select start_metadata_sync_to_node($1, $2)", config.Host, config.Port); err != nil {
		t.Error(err)
	}
	for _, err := range []error{distribute(), checkOf(t, db)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// checkOf returns what connect-svc check says about a cluster.
func checkOf(t *testing.T, db *pgtest.DB) (found error) {
	t.Helper()
	found = errors.New("it does not say anything")
	app.Check(t.Context(), app.Config{Database: settings.Database{DatabaseURL: db.URLs[0]}}, func(check, _ string, err error) {
		if check == "cluster" {
			found = err
		}
	})
	return found
}

// A node that would make a later step fail is named before the first one.
func TestNodesAreCheckedBeforeTheFirstStepOnACluster(t *testing.T) {
	db := pgtest.NewCluster(t, true)
	distribute := func() error {
		return citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) { t.Errorf("a step: %s", step) })
	}
	node := session(t, db.URLs[1])
	name := fmt.Sprintf("node %s:%d ", node.Config().Host, node.Config().Port)
	refused := func(fault string) {
		t.Helper()
		for _, err := range []error{distribute(), checkOf(t, db)} {
			if err == nil || !strings.Contains(err.Error(), name+fault) {
				t.Errorf("the error does not name the fault %q: %v", fault, err)
			}
		}
	}
	if err := checkOf(t, db); err != nil {
		t.Error(err)
	}
	if _, err := node.Exec(t.Context(), `set citus.enable_ddl_propagation = off;
		create or replace function pg_catalog.citus_local_disk_space_stats(out available_disk_size bigint, out total_disk_size bigint)
		language sql as 'select 0::bigint, 0::bigint'`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	refused("has less than ")
	if _, err := node.Exec(t.Context(), "create table keyset_marks ()"); err != nil {
		t.Fatal(err)
	}
	refused("has tables of the service already")
	restart(t, db.URLs[1], func() { refused("does not answer") })
}
