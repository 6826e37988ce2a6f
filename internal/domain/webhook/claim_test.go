package webhook

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// share is how many events are sent to a client at the same time, unless its registration says otherwise.
const share = 8

// load is a test's burst: events to many receivers, of which some never answer.
type load struct {
	receivers, hanging, events int
}

// burst writes all events at once and returns how long those of the receivers that answer were under way, shortest
// first. It checks that no receiver that hangs held more than its share of the senders.
func (l load) burst(t testing.TB) []time.Duration {
	t.Helper()
	w := newWorld(t)
	release := make(chan struct{})
	var released sync.Once
	t.Cleanup(func() { released.Do(func() { close(release) }) })
	var clients []pgtest.Client
	var healthy []*receiver
	for i := range l.receivers {
		if i >= l.hanging {
			r := receive(t, nil)
			r.busy = true
			healthy = append(healthy, r)
			clients = append(clients, w.client(t, r))
			continue
		}
		var sending atomic.Int32
		clients = append(clients, w.client(t, receive(t, func(_ http.ResponseWriter, request *http.Request) {
			if sending.Add(1) > share {
				t.Errorf("a receiver has more than %d calls at the same time", share)
			}
			defer sending.Add(-1)
			select {
			case <-release:
			case <-request.Context().Done():
			}
		})))
	}
	w.run(t)
	ids := make([]uuid.UUID, len(clients))
	for i, client := range clients {
		ids[i] = client.ID
	}
	written := time.Now()
	w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
		select gen_random_uuid(), ($1::uuid[])[1 + i % $2], 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected'
		from generate_series(0, $3 - 1) as i`, ids, l.receivers, l.events)
	var took []time.Duration
	for _, r := range healthy {
		for range l.events / l.receivers {
			took = append(took, r.next(t).at.Sub(written))
		}
	}
	released.Do(func() { close(release) })
	slices.Sort(took)
	return took
}

// One receiver that hangs delays nobody: others get their events while it holds its share of the senders.
func TestBurstWithHangingReceivers(t *testing.T) {
	t.Parallel()
	l := load{receivers: 8, hanging: 2, events: 240}
	if took := l.burst(t); len(took) != 180 {
		t.Errorf("%d events", len(took))
	}
}

// The figure: 2,000 events to 20 receivers of which 5 hang.
func BenchmarkBurst(b *testing.B) {
	for b.Loop() {
		took := load{receivers: 20, hanging: 5, events: 2000}.burst(b)
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
		b.ReportMetric(took[len(took)*99/100].Seconds(), "p99-s")
		b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
	}
}

// The figure: an import that changed something of each of 100,000 connected users. Memory is measured while their events are
// merged, and for half a minute of delivery.
func BenchmarkImport(b *testing.B) {
	const users, delivery = 100_000, 30 * time.Second
	w := newWorld(b)
	var delivered atomic.Int64
	r := receive(b, nil)
	r.count = &delivered
	w.connectMany(b, w.client(b, r), users)
	for b.Loop() {
		before := heap()
		peak := before
		began := time.Now()
		w.changed(b, scope.DailySteps, "2026-11-12")
		b.ReportMetric(time.Since(began).Seconds(), "note-s")
		w.db.Clock.Advance(time.Minute)
		began = time.Now()
		if n := w.mergeAll(b); n != users {
			b.Fatalf("%d connections are told", n)
		}
		b.ReportMetric(time.Since(began).Seconds(), "merge-s")
		w.run(b)
		for end := time.Now().Add(delivery); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
			peak = max(peak, heap())
		}
		b.ReportMetric(float64(delivered.Load())/delivery.Seconds(), "events/s")
		b.ReportMetric(float64(peak-before)/(1<<20), "more-MiB")
	}
}

// heap is the memory in use, in bytes, after a collection.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A claim gives each client what is left of its share, the event that is due longest first and retries last, and leaves what is
// leased, locked or not due.
func TestClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy, other := w.client(t, nil), w.client(t, nil)
	var want []uuid.UUID
	for range share + 3 {
		want = append(want, w.revoked(t, busy))
	}
	otherEvent := w.revoked(t, other)
	later := w.revoked(t, other)
	locked := w.revoked(t, other)
	w.db.Exec(t, "update webhook_events set ready = null, due_at = connect_now() + interval '1 minute' where event_id = $1", later)
	due := w.event(t, later).NextAttemptAt
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select 1 from webhook_events where user_id = $1 for update", w.event(t, locked).userID); err != nil {
		t.Fatal(err)
	}
	byClient := func(events []*claimed) map[uuid.UUID][]uuid.UUID {
		ids := map[uuid.UUID][]uuid.UUID{}
		for _, event := range events {
			ids[event.ClientID] = append(ids[event.ClientID], event.ID)
		}
		return ids
	}
	check := func(room map[uuid.UUID]int, want map[uuid.UUID][]uuid.UUID) {
		t.Helper()
		if diff := cmp.Diff(want, byClient(w.claimed(t, room))); diff != "" {
			t.Errorf("with room for %v (-want +got):\n%s", room, diff)
		}
	}
	check(map[uuid.UUID]int{busy.ID: 2}, map[uuid.UUID][]uuid.UUID{busy.ID: want[:2], other.ID: {otherEvent}})
	check(map[uuid.UUID]int{busy.ID: 0}, map[uuid.UUID][]uuid.UUID{})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(nil, map[uuid.UUID][]uuid.UUID{busy.ID: want[2 : 2+share], other.ID: {locked}})
	w.db.Clock.Advance(time.Minute)
	fresh := w.revoked(t, other)
	check(map[uuid.UUID]int{other.ID: 1}, map[uuid.UUID][]uuid.UUID{busy.ID: want[2+share:], other.ID: {fresh}}) // before the retry
	check(nil, map[uuid.UUID][]uuid.UUID{other.ID: {later}})
	if got := w.event(t, later).NextAttemptAt; !got.Equal(due) {
		t.Errorf("the retry was due at %s, and is shown as due at %s", due, got)
	}
}

// Another server sends what a killed server had leased, when the lease is over.
func TestLeaseOfAServerThatWasKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limit(work.DefaultLimits)
	usual := w.leases()
	r := receive(t, nil)
	id := w.revoked(t, w.client(t, r))
	before := pgtest.Value[time.Time](t, w.db, "select now()")
	if events := w.claimed(t, nil); len(events) != 1 {
		t.Fatalf("%d events are leased", len(events))
	}
	after := pgtest.Value[time.Time](t, w.db, "select now()")
	end := pgtest.Value[time.Time](t, w.db, "select leased_until from webhook_events")
	if end.Sub(before) < usual.AttemptLimit+usual.RecordLimit || end.Sub(after) > usual.Lease() || usual.Lease() > 29*time.Second { // "within half a minute", docs/operations.md
		t.Errorf("the lease of %s to %s ends at %s", before, after, end)
	}
	w.db.Exec(t, "update webhook_events set leased_until = now()")
	w.run(t)
	if c := r.next(t); c.id != messageID(id) {
		t.Errorf("webhook-id %s", c.id)
	}
}

// A claim finds what is due by the index, however long the log is, also with a plan that PostgreSQL made for any
// arguments.
func TestClaimReadsNoTable(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, nil)
	w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, queued)
		select gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', 'delivered', true
		from generate_series(1, 5000)`, client.ID)
	w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, queued, ready, due_at, leased_until)
		select gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', true, null, now() + interval '1 hour', now()
		from generate_series(1, 5000)`, client.ID)
	w.db.Exec(t, "analyze webhook_events")
	w.revoked(t, client)
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "set local plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	inTx := &Webhooks{queries: w.queries.WithTx(tx), pool: w.pool, limits: w.limits}
	if events, _, err := inTx.claim(t.Context(), nil, 10); err != nil || len(events) != 1 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	var scans []string
	if err := tx.QueryRow(t.Context(), `select array_agg(relname::text) from pg_stat_xact_user_tables
		where relname = 'webhook_events' and seq_scan > 0`).Scan(&scans); err != nil {
		t.Fatal(err)
	}
	if len(scans) != 0 {
		t.Errorf("the claim read %s from beginning to end", scans)
	}
}

// A server that was frozen until its leases ended gives back what it has not sent: not what another server has leased since.
func TestReleaseOfAServerThatWasFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.revoked(t, w.client(t, nil))
	frozen := w.claimed(t, nil)
	w.db.Exec(t, "update webhook_events set leased_until = now() - interval '1 second'")
	if n := len(w.claimed(t, nil)); n != 1 || len(frozen) != 1 {
		t.Fatalf("leased %d events, and then %d", len(frozen), n)
	}
	if err := w.release(t.Context(), frozen); err != nil {
		t.Fatal(err)
	}
	if n := len(w.claimed(t, nil)); n != 0 {
		t.Errorf("%d events are leased that another server sends", n)
	}
}
