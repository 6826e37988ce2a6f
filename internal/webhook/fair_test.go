package webhook

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
)

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
	w.db.Exec(t, `insert into webhook_events (client_id, type, grant_id, connection_version, reason)
		select ($1::uuid[])[1 + i % $2], 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected'
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

// The figure: an import that changed something of each of 100,000 connected users. What it costs the memory is measured
// while their events are merged, and for half a minute of delivery.
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
		w.db.Exec(b, "insert into daily_steps (user_id, date, steps) select user_id, '2026-11-12', 1 from users")
		b.ReportMetric(time.Since(began).Seconds(), "import-s")
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

// A client has its share of the senders; a few more events wait for their turn, in order, for two seconds, and all others
// elsewhere.
func TestShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, other := newShares(), uuid.New(), uuid.New()
		var running []func()
		for i := range share {
			wait, done := s.take(t.Context(), client)
			if wait > 0 {
				t.Fatalf("try %d is to wait %s", i, wait)
			}
			running = append(running, done)
		}
		type turn struct {
			number int
			wait   time.Duration
			done   func()
		}
		turns := make(chan turn, 2*maxQueue)
		enter := func(ctx context.Context, number int) {
			go func() {
				wait, done := s.take(ctx, client)
				turns <- turn{number, wait, done}
			}()
			synctest.Wait()
		}
		for i := range maxQueue {
			enter(t.Context(), i)
		}
		if wait, _ := s.take(t.Context(), client); wait < leastWait || wait > 3*leastWait {
			t.Errorf("beyond the queue: %s", wait)
		}
		if wait, done := s.take(t.Context(), other); wait > 0 {
			t.Errorf("another client waits %s", wait)
		} else {
			done()
		}
		for i := range 3 {
			running[i]()
			synctest.Wait()
			got := <-turns
			if got.number != i || got.wait > 0 {
				t.Errorf("turn %d came to %d, which waits %s", i, got.number, got.wait)
			}
			running = append(running, got.done)
		}
		stopping, stop := context.WithCancel(t.Context())
		enter(stopping, 100)
		stop()
		synctest.Wait()
		if got := <-turns; got.number != 100 || got.wait == 0 {
			t.Errorf("%d gave up and waits %s", got.number, got.wait)
		}
		<-time.After(patience) // by the clock of this bubble
		synctest.Wait()
		for range maxQueue - 3 {
			if got := <-turns; got.wait == 0 {
				t.Errorf("%d was let in", got.number)
			}
		}
		for _, done := range running[3:] {
			done()
		}
		<-time.After(time.Minute)
		if wait, done := s.take(t.Context(), client); wait > 0 {
			t.Errorf("waits %s although nothing is sent", wait)
		} else {
			done()
		}
		if len(s.clients) > 0 {
			t.Errorf("%d clients are remembered", len(s.clients))
		}
	})
}
