package cluster_test

import (
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// start stops a server at the end of the test, unless it has ended by then.
func start(t *testing.T, server *embedded.Server, err error) *embedded.Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	return server
}

// on is a server's database, for the test itself.
func on(t *testing.T, server *embedded.Server) *pgtest.DB {
	t.Helper()
	db := &pgtest.DB{URL: server.URL(), Clock: new(clock.Clock)}
	db.Pool = db.Open(t)
	return db
}

// has waits until a server has everything that another one has written.
func has(t *testing.T, replica, written *pgtest.DB) {
	t.Helper()
	end := pgtest.Value[string](t, written, "select pg_logical_emit_message(true, '', '')::text")
	wait.Until(t, "a replica catches up", func() bool {
		return pgtest.Value[bool](t, replica, "select pg_last_wal_replay_lsn() >= '"+end+"'")
	})
}

// A replica takes over without the last commits. The replica that has them stays on the old history: its rows are never read, whether
// it is ahead of the new primary or behind. A replica that follows the new primary is read.
func TestReplicaOfAnotherHistory(t *testing.T) {
	t.Parallel()
	config := embedded.Config{Ephemeral: true, Limits: wait.Patient}
	kept := embedded.Config{Dir: t.TempDir() + "/first", Limits: wait.Patient}
	first, err := embedded.Start(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Apply(t.Context(), first.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	var replicas []*embedded.Server
	for range 3 {
		one, err := embedded.StartReplica(t.Context(), first, config)
		replicas = append(replicas, start(t, one, err))
	}
	second, stranger, follower := on(t, replicas[0]), on(t, replicas[1]), on(t, replicas[2])
	way, log := proxytest.New(t), new(logtest.Buffer)
	primary := &pgtest.DB{URL: way.Open(t, first.URL()), Clock: new(clock.Clock)}
	primary.Pool = primary.Open(t)
	_, hosts, _ := strings.Cut(stranger.URL, "@")
	host, _, _ := strings.Cut(hosts, "/")
	r := replicated{log: log, there: stranger}
	r.Service = e2e.NewOn(t, primary, func(config *app.Config) {
		config.DatabaseReadURL = strings.Replace(follower.URL, "@", "@"+host+",", 1)
		config.Limits.ReplicaLag = lag
		config.Logger = telemetry.NewLogger(log, slog.LevelInfo)
	})
	used := func(want int) func() bool {
		return func() bool {
			r.App.Replicas.Check(t.Context())
			return r.App.Replicas.Counts().Used == want
		}
	}
	_, token := r.Connect(t)
	r.record(t, token, 1000)
	wait.Until(t, "both replicas are read", used(2))
	if may, err := postgres.MayLackCommits(t.Context(), primary.Pool); err != nil || may {
		t.Errorf("before the failover: %t, %v", may, err)
	}

	// The last commits reach one replica of three.
	for _, one := range []*pgtest.DB{follower, second} { // in this order: the follower is not ahead
		has(t, one, primary)
		one.Exec(t, "alter system set primary_conninfo = ''")
		one.Exec(t, "select pg_reload_conf()")
		wait.Until(t, "a replica receives nothing", func() bool {
			return pgtest.Value[int](t, one, "select count(*) from pg_stat_wal_receiver") == 0
		})
	}
	r.record(t, token, 2000)
	const much = "select pg_logical_emit_message(true, '', repeat('x', 100000))::text"
	pgtest.Value[string](t, primary, much)
	has(t, stranger, primary)
	if err := first.StopAtOnce(); err != nil {
		t.Fatal(err)
	}
	second.Exec(t, "select pg_promote()")
	way.Open(t, second.URL)
	primary.Pool.Close()
	primary.Pool = primary.Open(t)
	follower.Exec(t, "alter system set primary_conninfo = '"+second.URL+"'")
	follower.Exec(t, "select pg_reload_conf()")
	defer func() {
		if t.Failed() {
			t.Log(log)
		}
	}()
	wait.Until(t, "the replica of the new primary is read", used(1))
	if !strings.Contains(log.String(), "not of the primary") {
		t.Errorf("the log:\n%s", log)
	}
	reads := func(when string) {
		t.Helper()
		for range 10 {
			if got := r.steps(t, token); got != 1000 {
				t.Fatalf("%s read %d steps, want the 1000 of the new primary", when, got)
			}
		}
	}
	reads("beside a replica that is ahead,")

	// The former primary comes back, and the stranger follows it: they go on beside the new primary.
	first, err = embedded.Start(t.Context(), kept)
	former := on(t, start(t, first, err))
	stranger.Exec(t, "alter system set primary_conninfo = '"+former.URL+"'")
	stranger.Exec(t, "select pg_reload_conf()")
	has(t, stranger, former)
	advance := func(one, beyond *pgtest.DB, position string) {
		t.Helper()
		end := pgtest.Value[string](t, beyond, "select "+position+"::text")
		for !pgtest.Value[bool](t, one, "select pg_current_wal_insert_lsn() > '"+end+"'") {
			pgtest.Value[string](t, one, much)
		}
	}
	for range 3 {
		r.App.Replicas.Check(t.Context())
		reads("beside a replica of the former primary,")
		advance(former, primary, "pg_current_wal_insert_lsn()")
		has(t, stranger, former)
		advance(primary, stranger, "pg_last_wal_replay_lsn()")
	}
	has(t, follower, primary)
	wait.Until(t, "the replica of the new primary is read", used(1))
	reads("at last,")
	if may, err := postgres.MayLackCommits(t.Context(), primary.Pool); err != nil || !may {
		t.Errorf("after the failover: %t, %v", may, err)
	}
	if err := postgres.RecordReconciliation(t.Context(), primary.Pool); err != nil {
		t.Fatal(err)
	}
	if may, err := postgres.MayLackCommits(t.Context(), primary.Pool); err != nil || may {
		t.Errorf("after the reconciliation: %t, %v", may, err)
	}
}

// A primary is restored from a copy of its files, with the same timeline: its replica is ahead of it.
func TestReplicaAheadOfThePrimary(t *testing.T) {
	t.Parallel()
	config := embedded.Config{Dir: t.TempDir() + "/primary", Limits: wait.Patient}
	primary, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Apply(t.Context(), primary.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	replicaServer, err := embedded.StartReplica(t.Context(), primary, embedded.Config{Ephemeral: true, Limits: wait.Patient})
	there := on(t, start(t, replicaServer, err))
	here := on(t, primary)
	has(t, there, here)
	files := pgtest.Value[string](t, here, "show data_directory")
	here.Pool.Close()
	if err := primary.Stop(); err != nil {
		t.Fatal(err)
	}
	run := func(command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run("cp", "-a", files, files+".copy")
	primary, err = embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	there.Exec(t, "alter system set primary_conninfo = '"+primary.URL()+"'")
	there.Exec(t, "select pg_reload_conf()")
	here = on(t, primary)
	pgtest.Value[string](t, here, "select pg_logical_emit_message(true, '', repeat('x', 100000))::text")
	has(t, there, here)
	here.Pool.Close()
	if err := primary.Stop(); err != nil {
		t.Fatal(err)
	}
	run("mv", files, files+".lost")
	run("mv", files+".copy", files)
	primary, err = embedded.Start(t.Context(), config)
	here = on(t, start(t, primary, err))
	log := new(logtest.Buffer)
	replicas, err := replica.Open(t.Context(), there.URL, here.Pool, wait.Patient, time.Now, telemetry.NewLogger(log, slog.LevelInfo))
	if err != nil {
		t.Fatal(err)
	}
	defer replicas.Close()
	position := pgtest.Value[string](t, there, "select pg_last_wal_replay_lsn()::text")
	if !pgtest.Value[bool](t, here, "select pg_current_wal_insert_lsn() < '"+position+"'") {
		t.Fatal("the replica is not ahead")
	}
	never := func() {
		t.Helper()
		for range 3 {
			if replicas.Check(t.Context()); replicas.Counts().Used != 0 {
				t.Fatal("the replica is in use")
			}
		}
	}
	never()
	for !pgtest.Value[bool](t, here, "select pg_current_wal_lsn() > '"+position+"'") {
		pgtest.Value[string](t, here, "select pg_logical_emit_message(true, '', repeat('x', 1000))::text")
	}
	never()
}
