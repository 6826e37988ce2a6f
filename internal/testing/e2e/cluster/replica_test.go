package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	standbys "connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// replicated is the service on a primary of its own with a real streaming replica.
type replicated struct {
	*e2e.Service
	replica *embedded.Server
	way     *proxytest.Proxy // from the service to the replica
	there   *pgtest.DB       // the replica's, for the test itself
	keys    *credential.Keyring
	log     *logtest.Buffer
}

func newReplicated(t *testing.T) replicated {
	t.Helper()
	start := func(server *embedded.Server, err error) *embedded.Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		})
		return server
	}
	primary := start(embedded.Start(t.Context(), embedded.Config{Ephemeral: true, Limits: wait.Patient}))
	if _, err := migrate.Apply(t.Context(), primary.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	db := &pgtest.DB{URL: primary.URL(), Clock: new(clock.Clock)}
	db.Pool = db.Open(t)
	replica := start(embedded.StartReplica(t.Context(), primary, embedded.Config{Ephemeral: true, Limits: wait.Patient}))
	there := &pgtest.DB{URL: replica.URL(), Clock: new(clock.Clock)}
	there.Pool = there.Open(t)
	r := replicated{replica: replica, way: proxytest.New(t), there: there, keys: credential.NewTestKeyring(), log: new(logtest.Buffer)}
	at := r.way.Open(t, replica.URL())
	r.Service = e2e.NewOn(t, db, func(config *app.Config) {
		config.DatabaseReadURL = at
		config.Keys = r.keys
		config.Limits.ReplicaLag = lag
		config.Logger = telemetry.NewLogger(r.log, slog.LevelInfo)
	})
	return r
}

// lag is how old the replica's rows may be: more than a test takes between two checks, and few of it are within the life of an
// access token.
const lag = wait.Limit / 2

// hasty is another server of the same service, which hardly waits for a replica.
func (r replicated) hasty(t *testing.T) replicated {
	t.Helper()
	at := r.Config.DatabaseReadURL
	r.Service = e2e.NewOn(t, r.DB, func(config *app.Config) {
		config.DatabaseReadURL, config.Keys = at, r.keys
		config.Limits.Replica, config.Limits.Overdue = 50*time.Millisecond, 50*time.Millisecond
	})
	return r
}

// caughtUp waits until the replica has all that was written before, and may be read from.
func (r replicated) caughtUp(t *testing.T) {
	t.Helper()
	written := pgtest.Value[string](t, r.DB, "select pg_logical_emit_message(true, '', '')::text")
	wait.Until(t, "the replica catches up", func() bool {
		return pgtest.Value[bool](t, r.there, "select pg_last_wal_replay_lsn() >= '"+written+"'")
	})
	wait.Until(t, "the replica may be read from", func() bool {
		r.App.Replicas.Check(t.Context())
		return r.App.Replicas.Counts().Used > 0
	})
}

// record writes the user's steps of the day to the primary.
func (r replicated) record(t *testing.T, token *oauth2.Token, steps int) {
	t.Helper()
	day, err := time.Parse(time.DateOnly, token.Extra("history_from").(string))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.App.Activity.Put(t.Context(), activity.Batch{DailySteps: []activity.StepsRecord{{UserID: r.User.ID, Date: day, Steps: steps}}}); err != nil {
		t.Fatal(err)
	}
}

// steps are what the partner reads of the day.
func (r replicated) steps(t *testing.T, token *oauth2.Token) int {
	t.Helper()
	var answer struct{ Data []struct{ Steps int } }
	day := token.Extra("history_from")
	r.Get(t, token, fmt.Sprintf("daily-activity?from=%s&to=%s", day, day), &answer)
	if len(answer.Data) != 1 {
		t.Fatalf("read %+v, want one day", answer)
	}
	return answer.Data[0].Steps
}

// Rows of activity come from the replica while it is not too far behind, and all else from the primary. Rows that the replica has
// not replayed yet tell the two apart.
func TestReadReplica(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	app.Check(t.Context(), r.Config, func(check, detail string, err error) {
		if check == "read replicas" && (err != nil || detail != "all answer; stays on this machine") {
			t.Errorf("check says of the replica: %q, %v", detail, err)
		}
	})
	config, token := r.Connect(t)
	r.record(t, token, 1000)
	r.caughtUp(t)
	if got := r.steps(t, token); got != 1000 {
		t.Fatalf("read %d steps, want 1000", got)
	}
	if got := r.App.Replicas.States(); len(got) != 1 || !got[0].Used || got[0].Lag < 0 || got[0].Lag > lag {
		t.Errorf("the replicas are %+v", got)
	}
	if got := r.App.Replicas.Counts(); got.Answered != 1 || got.Failed != 0 || got.Used != 1 {
		t.Fatalf("%+v, want one read answered by the replica", got)
	}

	// The replica stays in use if a caller leaves while it waits for a place in the replica's pool.
	_, err := standbys.Read(t.Context(), r.DB.Pool, r.App.Replicas, func(context.Context, *postgres.Pool) (bool, error) { return false, work.ErrGone })
	if got := r.App.Replicas.Counts(); !errors.Is(err, work.ErrGone) || got.Used != 1 || got.Failed != 0 {
		t.Errorf("a caller left: %v, %+v", err, got)
	}
	// It does, too, if all places in that pool are taken for as long as a read can wait. The primary answers then.
	late, err := standbys.Read(t.Context(), r.DB.Pool, r.App.Replicas, func(_ context.Context, pool *postgres.Pool) (bool, error) {
		if pool != r.DB.Pool {
			return false, work.ErrLate
		}
		return true, nil
	})
	if got := r.App.Replicas.Counts(); err != nil || !late || got.Used != 1 {
		t.Errorf("no place was free in time: %t, %v, %+v", late, err, got)
	}

	// A primary that rests makes the replica no older.
	r.DB.Clock.Advance(lag + time.Second)
	r.caughtUp(t)

	r.there.Exec(t, "select pg_wal_replay_pause()")
	for pgtest.Value[string](t, r.there, "select pg_get_wal_replay_pause_state()") != "paused" {
		r.record(t, token, 1000) // it pauses at the next record
	}
	r.record(t, token, 2000)
	if got := r.steps(t, token); got != 1000 {
		t.Fatalf("read %d steps, want the 1000 of the replica", got)
	}
	// Decisions are made on the primary, before the replica knows of them: a refresh, a revocation, a limit.
	refreshed, err := config.TokenSource(r.Client(t), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	if err != nil {
		t.Fatal(e2e.CodeOf(err))
	}
	if status := r.Read(t, refreshed); status != http.StatusOK {
		t.Errorf("a read with the fresh token answers %d", status)
	}
	if err := r.App.OAuth.Revoke(t.Context(), edgetest.Credentials(r.Partner), refreshed.AccessToken); err != nil {
		t.Fatal(err)
	}
	if status := r.Read(t, refreshed); status != http.StatusUnauthorized {
		t.Errorf("a read with the revoked token answers %d", status)
	}

	// It ages between two checks, and no check makes it younger.
	r.DB.Clock.Advance(lag + time.Second)
	if got := r.steps(t, token); got != 2000 {
		t.Errorf("read %d steps of a replica that is too old, want 2000", got)
	}
	r.App.Replicas.Check(t.Context())
	if got := r.steps(t, token); got != 2000 || !strings.Contains(r.log.String(), "more than 60 s behind") {
		t.Errorf("read %d steps after a check, want 2000; the log:\n%s", got, r.log)
	}

	r.there.Exec(t, "select pg_wal_replay_resume()")
	r.caughtUp(t)
	before := r.App.Replicas.Counts().Answered
	if got := r.steps(t, token); got != 2000 || r.App.Replicas.Counts().Answered != before+1 {
		t.Errorf("read %d steps of the replica that caught up, want 2000", got)
	}
	// A cursor of the replica goes on at the primary.
	r.RecordRides(t, token, 5)
	r.caughtUp(t)
	page := r.Rides(t, token, 3, "")

	// The replica hangs, then answers again.
	func() {
		hasty := r.hasty(t)
		hasty.caughtUp(t)
		r.way.Hang.Lock()
		defer r.way.Hang.Unlock()
		if got := hasty.steps(t, token); got != 2000 {
			t.Errorf("read %d steps while the replica hangs, want 2000", got)
		}
		if got := hasty.App.Replicas.Counts(); got.Used != 0 || got.Failed != 1 {
			t.Errorf("while the replica hangs: %+v", got)
		}
	}()
	r.caughtUp(t)

	// The replica dies: the read that finds out is answered all the same, by the primary.
	r.there.Pool.Close()
	if err := r.replica.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.steps(t, token); got != 2000 {
		t.Errorf("read %d steps after the replica died, want 2000", got)
	}
	if got := r.App.Replicas.Counts(); got.Used != 0 || got.LeftOut != 1 || got.Failed != 2 {
		t.Errorf("after the replica died: %+v", got)
	}
	if rest := r.Rides(t, token, 3, page.Meta.NextCursor); len(page.Data) != 3 || len(rest.Data) != 2 || rest.Meta.NextCursor != "" {
		t.Errorf("pages of %d and %d rides, want 3 and 2", len(page.Data), len(rest.Data))
	}
	r.App.Replicas.Check(t.Context())
	if metrics := r.Private(t, "/metrics"); !strings.Contains(metrics, `connect_database_replicas{state="left_out"} 1`) {
		t.Error("the metrics do not say that the replica is left out")
	}
}
