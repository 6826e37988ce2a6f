package restart_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// nextMigrations are those of the service and, behind them, what a next release may do with tables that are in use.
func nextMigrations(t *testing.T) fstest.MapFS {
	t.Helper()
	more := map[string]string{
		"9100_indexes.sql": `-- +goose NO TRANSACTION
-- +goose Up
set lock_timeout = 0;
drop index concurrently if exists connections_next;
create index concurrently connections_next on connections (next_release);
drop index concurrently if exists daily_steps_next;
create index concurrently daily_steps_next on daily_steps (next_release);
reset lock_timeout;
-- +goose Down
`,
	}
	for i, change := range []string{
		"connections add column next_release text",
		"users add column next_release int not null default 7",
		"daily_steps add column next_release text",
	} {
		more[fmt.Sprintf("%d_column.sql", 9001+i)] = "-- +goose Up\nalter table " + change + ";\n-- +goose Down\n"
	}
	return pgtest.Migrations(t, more)
}

// traffic is what goes on at a service: each loop refreshes a connection, reads with it, writes the user's activity, signs
// the user up at another partner, and ends that connection.
type traffic struct {
	rounds atomic.Int64
	again  atomic.Int64 // reads that were asked again after a 503
	stop   func()       // and wait until the last round is over

	gate sync.RWMutex // who has it for writing has no traffic
	mu   sync.Mutex
	took []time.Duration
}

func startTraffic(t *testing.T, e *e2e.Service, loops int) *traffic {
	t.Helper()
	f, other := e2e.NewFront(t, e, false), e.DB.Client(t)
	e.DB.Exec(t, "update clients set burst = 1000000, requests_per_minute = 1000000, concurrent_reads = 1000")
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	tr := &traffic{stop: func() { cancel(); running.Wait() }}
	t.Cleanup(tr.stop)
	for range loops {
		user, tokens := e.NewConnection(t, e.Partner)
		running.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				tr.gate.RLock()
				begun := time.Now()
				tokens = tr.round(t, e, f, other, user, tokens)
				tr.done(time.Since(begun))
				tr.gate.RUnlock()
			}
		})
	}
	return tr
}

func (tr *traffic) done(took time.Duration) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.took = append(tr.took, took)
	tr.rounds.Add(1)
}

// round asks everything once, and fails the test where it is not answered as always.
func (tr *traffic) round(t *testing.T, e *e2e.Service, f *e2e.Front, other pgtest.Client, user pgtest.User, tokens oauth.Tokens) oauth.Tokens {
	ctx := context.Background()
	refreshed := f.Refresh(ctx, t, e.Partner, tokens.RefreshToken)
	var fresh struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal([]byte(refreshed.Body), &fresh); err != nil || refreshed.Status != http.StatusOK {
		t.Errorf("a refresh answers %d", refreshed.Status)
		return tokens
	}
	tokens.AccessToken, tokens.RefreshToken = fresh.Access, fresh.Refresh
	got := f.Read(ctx, t, tokens)
	if got.Status == http.StatusServiceUnavailable { // a partner asks again
		tr.again.Add(1)
		got = f.Read(ctx, t, tokens)
	}
	if got.Status != http.StatusOK {
		t.Errorf("a read answers %d", got.Status)
	}
	batch := activity.Batch{DailySteps: []activity.StepsRecord{{UserID: user.ID, Date: tokens.HistoryFrom, Steps: rand.IntN(10000)}}}
	if _, err := e.App.Activity.Put(ctx, batch); err != nil {
		t.Errorf("a write: %v", err)
	}
	theirs := edgetest.Connect(t, e.App.OAuth, other, scope.All, user.ID)
	if err := e.App.OAuth.Revoke(ctx, edgetest.Credentials(other), theirs.RefreshToken); err != nil {
		t.Errorf("a revocation: %v", err)
	}
	return tokens
}

// wait until the traffic has made some rounds more.
func (tr *traffic) wait(t *testing.T, rounds int64) {
	t.Helper()
	until := tr.rounds.Load() + rounds
	wait.Until(t, strconv.FormatInt(rounds, 10)+" rounds", func() bool { return t.Failed() || tr.rounds.Load() >= until })
}

// While a migration of the harmless kind runs, and while it waits for somebody who holds the tables for long (a backup), no
// request fails; servers of this program go on and start on the new schema.
func TestMigrationBesideTraffic(t *testing.T) {
	t.Parallel()
	if pgtest.OnCluster() { // where the locks are those of shards, which this test does not look at
		return
	}
	keys := credential.NewTestKeyring()
	same := func(config *app.Config) { config.Keys = keys }
	e := e2e.New(t, same)
	load := startTraffic(t, e, 3)
	load.wait(t, 3)

	end := e.Hold(t, "lock table connections, users, daily_steps in access share mode")
	migrated := make(chan error, 1)
	go func() {
		_, err := migrate.ApplyFrom(context.Background(), nextMigrations(t), e.DB.URLs[0], migrate.Up, wait.Limit)
		migrated <- err
	}()
	for range 2 { // it tries more than once
		wait.Until(t, "the migration waits for a table", func() bool { return migrationsWaiting(t, e) > 0 || len(migrated) > 0 })
		wait.Until(t, "the migration lets others go on", func() bool { return t.Failed() || migrationsWaiting(t, e) == 0 })
		load.wait(t, 3)
	}
	end()
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, e.DB, "select count(*) from pg_index where indexrelid::regclass::text like '%\\_next' and indisvalid"); n != 2 {
		t.Errorf("%d indexes were built", n)
	}
	load.wait(t, 6)

	later := e2e.NewOn(t, e.DB, same) // another server, which starts now
	also := startTraffic(t, later, 1)
	also.wait(t, 3)
	load.wait(t, 3)
	also.stop()
	load.stop()
	if n := load.again.Load() + also.again.Load(); n > 0 {
		t.Errorf("%d reads were answered 503", n)
	}
}

// migrationsWaiting is how many migrations wait for the lock of a table.
func migrationsWaiting(t *testing.T, e *e2e.Service) int {
	t.Helper()
	return pgtest.Value[int](t, e.DB, `select count(*) from pg_stat_activity
		where datname = current_database() and wait_event_type = 'Lock' and query like '%alter table%'`)
}
