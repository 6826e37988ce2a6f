package servers_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	serversdb "connect-svc/gen/db/servers"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// hosts returns the hosts of the listed servers, with a mark behind those that are lost.
func hosts(t *testing.T, o *servers.Servers) (names []string) {
	t.Helper()
	list, err := o.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range list {
		if server.Lost() {
			server.Host += " lost"
		}
		names = append(names, server.Host)
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A server that has not noticed a jump of the clock does not speak for it, so that one that starts does not believe it.
func TestHeartbeatDuringAJump(t *testing.T) {
	pgtest.NotOnCluster(t, "its clock is that of each node")
	t.Parallel()
	for _, jump := range []time.Duration{90 * time.Second, 401 * 24 * time.Hour, -time.Hour} {
		db := pgtest.New(t)
		var others []*servers.Servers
		for range 2 {
			other := servers.New(db.Open(t), "a", "v1", "abc", db.Now())
			must(t, other.LookAtClock(t.Context()))
			must(t, other.Heartbeat(t.Context(), nil))
			others = append(others, other)
		}
		db.Jump(t, jump)
		for _, other := range others {
			must(t, other.Heartbeat(t.Context(), nil))
		}
		starting := servers.New(db.Open(t), "b", "v1", "abc", db.Now())
		must(t, starting.LookAtClock(t.Context()))
		if starting.Clock().Doubt == "" {
			t.Errorf("a server that starts after a jump by %s believes the clock", jump)
		}
	}
}

// A look at the clocks, which each server takes every second, is one statement.
func TestLookIsOneStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Open(t)
	server := servers.New(pool, "a", "v1", "abc", time.Now())
	must(t, server.LookAtClock(t.Context()))
	before := pool.Stat().AcquireCount()
	must(t, server.LookAtClock(t.Context()))
	if n := pool.Stat().AcquireCount() - before; n != 1 {
		t.Errorf("a look has %d statements", n)
	}
}

// A server that was killed a while ago does not speak for a clock that jumped back to the time of its last heartbeat.
func TestJumpBackToAServerThatWasKilled(t *testing.T) {
	pgtest.NotOnCluster(t, "its clock is that of each node")
	t.Parallel()
	db := pgtest.New(t)
	for range 3 {
		killed := servers.New(db.Open(t), "killed", "v1", "abc", db.Now())
		must(t, killed.LookAtClock(t.Context()))
		must(t, killed.Heartbeat(t.Context(), nil))
	}
	db.Exec(t, "update servers set seen_at = seen_at - interval '100 seconds'")
	running := servers.New(db.Open(t), "running", "v1", "abc", db.Now())
	must(t, running.LookAtClock(t.Context()))
	look := func(who string, server *servers.Servers) {
		t.Helper()
		must(t, server.LookAtClock(t.Context()))
		if server.Clock().Doubt == "" {
			t.Errorf("%s believes a clock that jumped back", who)
		}
	}
	db.Jump(t, -90*time.Second)
	look("a server that knows the time", running)

	db.Jump(t, 0)
	must(t, running.LookAtClock(t.Context()))
	must(t, running.Heartbeat(t.Context(), nil))
	db.Jump(t, -90*time.Second)
	look("a server that starts beside one with a later heartbeat", servers.New(db.Open(t), "starts", "v1", "abc", db.Now()))
}

func TestServers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	a := servers.New(db.Pool, "a", "v1", "abc", db.Now())
	b := servers.New(db.Pool, "b", "v2", "", db.Now())
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, hosts(t, a)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("at first")
	firing := []alerts.Alert{{Name: "ConnectSlow", Severity: "ticket", Summary: "<b>", Since: db.Now().UTC().Truncate(time.Second)}}
	must(t, a.Heartbeat(t.Context(), nil))
	must(t, b.Heartbeat(t.Context(), firing))
	must(t, b.Heartbeat(t.Context(), firing)) // again and again
	expect("both", "a", "b")
	list, err := a.List(t.Context())
	must(t, err)
	if got := list[1]; got.ID != b.ID() || got.Version != "v2" || got.Commit != "unknown" || !cmp.Equal(got.Alerts, firing) || len(list[0].Alerts) != 0 {
		t.Errorf("b is %+v, a %+v", got, list[0])
	}
	db.Clock.Advance(70 * time.Second)
	must(t, a.Heartbeat(t.Context(), nil))
	expect("b sent no heartbeat for 70 seconds", "a", "b lost")
	must(t, b.Heartbeat(t.Context(), nil))
	expect("b is back", "a", "b")
	must(t, b.Deregister(t.Context()))
	expect("b has stopped", "a")

	must(t, b.Heartbeat(t.Context(), nil))
	db.Clock.Advance(23 * time.Hour)
	must(t, a.Heartbeat(t.Context(), nil))
	must(t, a.Sweep(t.Context()))
	expect("b was killed 23 hours ago", "a", "b lost")
	db.Clock.Advance(2 * time.Hour)
	must(t, a.Heartbeat(t.Context(), nil))
	must(t, a.Sweep(t.Context()))
	expect("b was killed more than a day ago", "a")
}

// Running servers are in the list, however many others were killed within a day.
func TestManyWereKilled(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `insert into servers (server_id, host, version, commit, started_at, seen_at, alerts)
		select gen_random_uuid(), 'a', 'v1', 'abc', connect_now(), connect_now() - n * interval '5 minutes', '[]' from generate_series(1, 250) n`)
	b := servers.New(db.Pool, "b", "v1", "abc", db.Clock.Now())
	must(t, b.Heartbeat(t.Context(), nil))
	if list := hosts(t, b); len(list) != 200 || list[0] != "a lost" || list[199] != "b" {
		t.Errorf("%d are in the list, the last of them %q", len(list), list[len(list)-1])
	}
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	o := servers.New(db.Pool, "a", "v1", "abc", db.Clock.Now())
	now, err := o.Database(t.Context())
	must(t, err)
	if _, _, known := now.Growth(db.Clock.Now()); known || now.Version == "" || now.Bytes == 0 || len(now.Sizes) != 0 || len(now.Tables) != 10 || now.Tables[0].Bytes < now.Tables[9].Bytes {
		t.Errorf("at first %+v", now)
	}
	const days = 33
	for range days {
		must(t, o.Sweep(t.Context())) // once a minute
		must(t, o.Sweep(t.Context()))
		db.Clock.Advance(24 * time.Hour)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from database_sizes"); n != days {
		t.Errorf("%d days are noted, want %d", n, days)
	}
	must(t, o.Sweep(t.Context()))
	db.Exec(t, "update database_sizes set bytes = $1 where day < (connect_now() at time zone 'UTC')::date", now.Bytes-1000)
	now, err = o.Database(t.Context())
	must(t, err)
	if len(now.Sizes) != 31 {
		t.Errorf("%d days are shown", len(now.Sizes))
	}
	if grew, since, known := now.Growth(db.Clock.Now()); !known || grew != now.Bytes-now.Sizes[0].Bytes || since != 30 {
		t.Errorf("grew by %d in %d days, %t", grew, since, known)
	}
	db.Clock.Advance(401 * 24 * time.Hour)
	must(t, o.Sweep(t.Context()))
	if n := pgtest.Value[int](t, db, "select count(*) from database_sizes"); n != 1 {
		t.Errorf("%d days are kept", n)
	}
}

// The names of a host and of a version are cut to the length of their columns. The texts of alerts are not cut.
func TestLongNames(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	long := string(make([]byte, 0, 300))
	for range 300 {
		long += "x"
	}
	o := servers.New(db.Pool, long, long, long, db.Clock.Now())
	must(t, o.Heartbeat(t.Context(), []alerts.Alert{{Name: long, Summary: long + long}}))
	list, err := o.List(t.Context())
	must(t, err)
	text, _ := json.Marshal(list[0].Alerts) //nolint:errchkjson // strings
	if len(list[0].Host) != 255 || len(text) < 900 {
		t.Errorf("the host has %d characters, the alerts %d", len(list[0].Host), len(text))
	}
}

// A server with another store for its rate limiter does not join those that run. Of those that join at the same time, one store remains. A
// server that was lost joins again.
func TestOneLimiter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	with := func(host, store string) *servers.Servers {
		s := servers.New(db.Pool, host, "v1", "abc", db.Clock.Now())
		s.Limiter = func(context.Context) (string, error) { return store, nil }
		return s
	}
	refused := func(s *servers.Servers) string {
		t.Helper()
		err := s.Heartbeat(t.Context(), nil)
		other := new(servers.LimiterError)
		if err != nil && !errors.As(err, &other) {
			t.Fatal(err)
		}
		return other.Host
	}
	store := "Redis 1"
	flushed := servers.New(db.Pool, "flushed", "v1", "abc", db.Clock.Now())
	flushed.Limiter = func(context.Context) (string, error) { return store, nil }
	must(t, flushed.Heartbeat(t.Context(), nil))
	other := with("other", "Redis 2")
	for range 2 {
		if err := other.Heartbeat(t.Context(), nil); !errors.Is(err, servers.ErrUnsure) {
			t.Error(err)
		}
	}
	store = "Redis 2" // its Redis has lost its data
	must(t, flushed.Heartbeat(t.Context(), nil))
	must(t, other.Heartbeat(t.Context(), nil))
	another := with("another", "Redis 3")
	another.BeSure()
	if refused(another) == "" {
		t.Error("a server with another Redis has joined")
	}

	db.Exec(t, "delete from servers")
	var together sync.WaitGroup
	joined := make([]string, 6)
	for i := range joined {
		together.Go(func() {
			store := []string{"PostgreSQL", "Redis"}[i%2]
			if err := with(store, store).Heartbeat(t.Context(), nil); err == nil {
				joined[i] = store
			} else if other := new(servers.LimiterError); !errors.As(err, &other) {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if slices.Sort(joined); joined[2] != "" || joined[3] == "" || joined[3] != joined[5] {
		t.Errorf("joined at the same time: %q", joined)
	}

	db.Exec(t, "delete from servers")
	a, unknown := with("a", "PostgreSQL"), servers.New(db.Pool, "old", "v0", "abc", db.Clock.Now())
	must(t, a.Heartbeat(t.Context(), nil))
	must(t, unknown.Heartbeat(t.Context(), nil))
	must(t, with("b", "PostgreSQL").Heartbeat(t.Context(), nil))
	c := with("c", "Redis")
	if refused(c) == "" {
		t.Error("a server with another store has joined")
	}
	db.Exec(t, "update servers set seen_at = connect_now() - interval '61 seconds'")
	if host := refused(c); host != "" {
		t.Errorf("beside servers that are lost, %s refuses a server with another store", host)
	}
	a.BeLost()
	if host := refused(a); host != "c" {
		t.Errorf("a server that was lost is refused by %q", host)
	}
}

// A server whose Redis hangs still sends heartbeats: otherwise the others would take it for lost.
func TestHeartbeatWithoutLimiter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := servers.New(db.Pool, "web-1", "v1", "abc", db.Clock.Now())
	s.Limiter = func(context.Context) (string, error) { return "Redis 1", nil }
	must(t, s.Heartbeat(t.Context(), nil))
	s.Limiter = func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	limited, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	must(t, s.Heartbeat(limited, nil))
	list, err := s.List(t.Context())
	if must(t, err); len(list) != 1 || list[0].Limiter != "Redis 1" {
		t.Errorf("%+v", list)
	}
}

// Redis loses its data, and then servers doubt the clock for a moment, so that they join again. None of them takes the others for servers
// with another Redis, nor a server that was killed before it noticed the loss.
func TestServersJoinAgainAfterRedisLostItsData(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store := "Redis 1"
	running := func(host string) *servers.Servers {
		s := servers.New(db.Pool, host, "v1", "abc", db.Clock.Now())
		s.Limiter = func(context.Context) (string, error) { return store, nil }
		must(t, s.Heartbeat(t.Context(), nil))
		return s
	}
	unsure := func(s *servers.Servers) {
		t.Helper()
		if err := s.Heartbeat(t.Context(), nil); !errors.Is(err, servers.ErrUnsure) {
			t.Error(err)
		}
	}
	a, b := running("a"), running("b")
	store = "Redis 2"
	a.BeLost()
	b.BeLost()
	unsure(a)
	must(t, b.Heartbeat(t.Context(), nil)) // knows the new one from a's row
	must(t, a.Heartbeat(t.Context(), nil))

	running("killed")
	store = "Redis 3"
	a.BeLost()
	unsure(a)
	db.Clock.Advance(50 * time.Second) // a server that was killed counts for a minute
	unsure(a)
	db.Clock.Advance(11 * time.Second)
	must(t, a.Heartbeat(t.Context(), nil))
}

// The votes on the database's clock.
func TestJudge(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	others := func(n, agreeing, believing int64) serversdb.CountClocksRow {
		return serversdb.CountClocksRow{Servers: n, Agreeing: agreeing, Believing: believing}
	}
	alone := others(0, 0, 0)
	for name, test := range map[string]struct {
		ahead, jump time.Duration // 0: not
		started     bool          // just now: nothing is known of the clock
		jumpedFor   time.Duration
		others      serversdb.CountClocksRow
		doubted     bool
		ownWrong    bool
	}{
		"all is well":                                        {others: others(2, 2, 2)},
		"alone":                                              {others: alone},
		"alone, just started":                                {started: true, others: alone},
		"the clocks differ by a minute":                      {ahead: -time.Minute, jump: time.Minute, others: alone},
		"the database's clock jumped":                        {ahead: hour, jump: hour, others: alone, doubted: true},
		"it jumped back":                                     {ahead: -hour, jump: -hour, others: others(2, 0, 0), doubted: true},
		"it jumped long ago":                                 {ahead: hour, jump: hour, jumpedFor: 24 * hour, others: alone, doubted: true},
		"it jumped, and other servers just started":          {ahead: hour, jump: hour, others: others(2, 0, 0), doubted: true},
		"alone, just started, and the clocks differ":         {ahead: hour, started: true, others: alone, doubted: true},
		"just started, and the database's differs from most": {ahead: hour, started: true, others: others(2, 0, 0), doubted: true},
		"just started, and one's own clock is wrong":         {ahead: hour, started: true, others: others(1, 1, 1), ownWrong: true},
		"one's own clock jumped":                             {ahead: hour, others: alone, ownWrong: true},
		"one's own clock jumped, beside others":              {ahead: hour, others: others(2, 2, 2), ownWrong: true},
		"the server was suspended":                           {jump: hour, others: others(1, 1, 1)},
		"it was suspended, and its clock is behind":          {ahead: hour, jump: hour, others: others(1, 1, 1), ownWrong: true},
		"all clocks jumped together":                         {jump: hour, others: alone, doubted: true},
		"all clocks jumped together, on all servers":         {jump: hour, others: others(2, 2, 0), doubted: true},
		"all clocks jumped together, ten minutes ago":        {jump: hour, jumpedFor: 10 * time.Minute, others: others(2, 2, 0)},
	} {
		now := time.Now()
		before := servers.Jumped(now.Add(-test.jumpedFor))
		got := servers.Judge(now, before, test.ahead, test.jump, !test.started, test.others)
		if (got.Doubt != "") != test.doubted || got.OwnWrong() != test.ownWrong {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
