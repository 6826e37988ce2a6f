package webhook

import (
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"github.com/google/uuid"
)

// traced is a server whose statements are kept. PostgreSQL plans them as if the tables were large.
func (w *world) traced(t *testing.T) (*Webhooks, *pgtest.Statements) {
	t.Helper()
	sent := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), w.db.URL+"&enable_seqscan=off", postgres.WithClock(w.db.Clock), postgres.WithLimits(wait.Patient), postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	server := New(pool, credential.NewTestKeyring(), Settings{Limits: wait.Patient})
	*sent = nil // what opening it asked
	return server, sent
}

// down are clients whose receivers are down.
func (w *world) down(t *testing.T) (clients []uuid.UUID) {
	t.Helper()
	for range 50 {
		clients = append(clients, w.db.Client(t).ID)
	}
	w.db.Exec(t, "insert into webhook_endpoints (client_id, url, secret) select unnest($1::uuid[]), 'https://partner.example/', 'x'", clients)
	return clients
}

// readLittle checks that each statement reads most events at most.
func readLittle(t *testing.T, server *Webhooks, sent *pgtest.Statements, most float64) {
	t.Helper()
	sent.Explain(t, server.pool, func(sql string, plan []pgtest.PlanNode) {
		name, _, _ := strings.Cut(sql, "\n")
		rows := 0.0
		for _, n := range plan {
			if n.Table == "webhook_events" && strings.HasSuffix(n.Type, "Scan") {
				rows += n.Read()
			}
		}
		if rows > most {
			t.Errorf("%.0f events are read in %s", rows, name)
		}
	})
}

// While receivers are down their events fail days after they were written, so those that are kept come before others' that are deleted, and those that they
// have yet to get come before those of paused webhooks. Each statement of a sweep reads a part nevertheless, so that none takes longer than it may.
func TestSweepWhileReceiversAreDown(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	w := newWorld(t)
	up, paused := w.client(t, nil), w.client(t, nil)
	down := w.down(t)
	for _, events := range []struct {
		n               int
		clients         []uuid.UUID
		state           string
		written, leased int // days ago
	}{
		{20_000, down, "failed", 32, 29},
		{4500, []uuid.UUID{up.ID}, "delivered", 31, 31},
		{20_000, down, "pending", 5, 5},
		{2500, []uuid.UUID{paused.ID}, "pending", 5, 5},
	} {
		w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, ready, queued, created_at, leased_until)
			select gen_random_uuid(), ($2::uuid[])[1 + n % cardinality($2)], 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', $3,
				case when $3 = 'pending' then 0 end, true, $4::timestamptz + n * interval '1 millisecond', $5::timestamptz
			from generate_series(1, $1::int) as n`, events.n, events.clients, events.state,
			w.db.Now().Add(-time.Duration(events.written)*24*time.Hour), w.db.Now().Add(-time.Duration(events.leased)*24*time.Hour))
	}
	w.db.Exec(t, "update webhook_endpoints set paused_at = $2 where client_id = $1", paused.ID, w.db.Now().Add(-6*24*time.Hour))
	w.db.Exec(t, "vacuum analyze webhook_events")
	server, sent := w.traced(t)
	if err := server.Sweep(t.Context(), w.db.Now()); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[State]int{Delivered: 0, Pending: 20_000, Failed: 22_500} {
		if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_events where state = $1", string(state)); n != want {
			t.Errorf("%d events are %s, want %d", n, state, want)
		}
	}
	readLittle(t, server, sent, 7000)
}

// While receivers are down that have many events, what waits is counted up to a bound, so that it is known at all: the alert of a client whose events
// wait needs it.
func TestWhatWaitsIsCountedUpToABound(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, created_at)
		select gen_random_uuid(), ($1::uuid[])[1 + n % cardinality($1)], 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected',
			$2::timestamptz + n * interval '1 millisecond'
		from generate_series(1, 20000) as n`, w.down(t), w.db.Now().Add(-2*time.Hour))
	w.db.Exec(t, "vacuum analyze webhook_events, webhook_endpoints, clients")
	server, sent := w.traced(t)
	server.counted = 500
	queue, err := server.Queue(t.Context())
	if err != nil || queue.Waiting != 500 || queue.Oldest < time.Hour {
		t.Errorf("%d events wait, the oldest for %s, %v", queue.Waiting, queue.Oldest, err)
	}
	stats, err := server.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := int64(0)
	for _, s := range stats {
		if waiting += s.Pending; s.Oldest < time.Hour {
			t.Errorf("%s: the oldest waits for %s", s.Client, s.Oldest)
		}
	}
	if waiting != 500 {
		t.Errorf("%d events wait", waiting)
	}
	readLittle(t, server, sent, 2000)
}

// While receivers have been down for weeks, the events that failed within a day are found among those of two weeks: they were written last.
func TestFailedOfDayAmongMany(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	w := newWorld(t)
	down := w.down(t)
	for _, written := range []struct{ days, n int }{{10, 60_000}, {3, 12_000}} { // ago
		w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, ready, queued, created_at, leased_until)
			select gen_random_uuid(), ($1::uuid[])[1 + n % cardinality($1)], 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', 'failed',
				null, true, $3::timestamptz + n * interval '1 millisecond', $3::timestamptz + interval '70 hours'
			from generate_series(1, $2::int) as n`, down, written.n, w.db.Now().Add(-time.Duration(written.days)*24*time.Hour))
	}
	w.db.Exec(t, "vacuum analyze webhook_events")
	server, sent := w.traced(t)
	if queue, err := server.Queue(t.Context()); err != nil || queue.Failed != 10_000 {
		t.Errorf("%d events failed within a day, %v", queue.Failed, err)
	}
	readLittle(t, server, sent, 12_000)
}
