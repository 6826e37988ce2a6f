package ratelimit_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"connect-svc/internal/ratelimit"
)

// limiter is what the suite holds every implementation to.
type limiter interface {
	Admit(ctx context.Context, clientID uuid.UUID, policy ratelimit.Policy) (ratelimit.Decision, error)
}

// fleet is a number of servers that share one limit.
type fleet struct {
	servers   []limiter
	newClient func(testing.TB) uuid.UUID
	// advance moves the clock, which stands still otherwise. It is nil where the clock runs.
	advance func(testing.TB, time.Duration)
}

// clockMode of a fleet: rules to the second need a clock that nothing but the test moves.
type clockMode bool

const (
	frozen  clockMode = false
	running clockMode = true
)

func testLimiter(t *testing.T, newFleet func(t *testing.T, servers int, mode clockMode) fleet) {
	t.Run("rules", func(t *testing.T) {
		t.Parallel()
		testRules(t, newFleet(t, 1, frozen))
	})
	t.Run("8 release ends a lease once", func(t *testing.T) {
		t.Parallel()
		testRelease(t, newFleet(t, 2, frozen))
	})
	t.Run("8 clients have limits of their own", func(t *testing.T) {
		t.Parallel()
		testClientsApart(t, newFleet(t, 1, frozen))
	})
	t.Run("8 all servers share one bucket", func(t *testing.T) {
		t.Parallel()
		testSharedBucket(t, newFleet(t, 3, frozen))
	})
	t.Run("8 a running clock refills no more than the policy", func(t *testing.T) {
		t.Parallel()
		testRunningClock(t, newFleet(t, 3, running))
	})
	t.Run("8 all servers share the leases", func(t *testing.T) {
		t.Parallel()
		testSharedLeases(t, newFleet(t, 3, running))
	})
}

// step is one request of a client, after the clock has moved and leases have been released.
type step struct {
	after   time.Duration
	release []int // numbers of earlier steps, from 0
	policy  ratelimit.Policy
	want    ratelimit.Decision
}

func testRules(t *testing.T, f fleet) {
	policy := func(rpm, burst, concurrent int) ratelimit.Policy {
		return ratelimit.Policy{RequestsPerMinute: rpm, Burst: burst, ConcurrentReads: concurrent}
	}
	allowed := func(limit, remaining, reset int) ratelimit.Decision {
		return ratelimit.Decision{Allowed: true, Limit: limit, Remaining: remaining, ResetSeconds: reset}
	}
	refused := func(reason ratelimit.Reason, limit, remaining, reset, retry int) ratelimit.Decision {
		return ratelimit.Decision{
			Reason: reason, Limit: limit, Remaining: remaining, ResetSeconds: reset, RetryAfterSeconds: retry,
		}
	}
	const rate, concurrency = ratelimit.ReasonRate, ratelimit.ReasonConcurrency

	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"8 burst: back-to-back requests from a full bucket, then 429", []step{
			{policy: policy(60, 3, 9), want: allowed(60, 2, 1)},
			{policy: policy(60, 3, 9), want: allowed(60, 1, 1)},
			{policy: policy(60, 3, 9), want: allowed(60, 0, 1)},
			{policy: policy(60, 3, 9), want: refused(rate, 60, 0, 1, 1)},
		}},
		{"8 refill: one request each 60/rpm seconds, not sooner", []step{
			{policy: policy(6, 1, 9), want: allowed(6, 0, 10)},
			{after: 9999 * time.Millisecond, policy: policy(6, 1, 9), want: refused(rate, 6, 0, 1, 1)},
			{after: time.Millisecond, policy: policy(6, 1, 9), want: allowed(6, 0, 10)},
		}},
		{"8 refill stops at the burst", []step{
			{policy: policy(600, 2, 9), want: allowed(600, 1, 1)},
			{after: 100 * 24 * time.Hour, policy: policy(600, 2, 9), want: allowed(600, 1, 1)},
			{policy: policy(600, 2, 9), want: allowed(600, 0, 1)},
			{policy: policy(600, 2, 9), want: refused(rate, 600, 0, 1, 1)},
		}},
		{"8 the largest policy does not overflow", []step{
			{policy: policy(1000000, 1000000, 9), want: allowed(1000000, 999999, 1)},
			{after: 250 * 365 * 24 * time.Hour, policy: policy(1000000, 1000000, 9), want: allowed(1000000, 999999, 1)},
		}},
		{"8 Retry-After: waiting that long is enough, whatever the rate divides into", []step{
			{policy: policy(7, 1, 9), want: allowed(7, 0, 9)},
			{after: 500 * time.Millisecond, policy: policy(7, 1, 9), want: refused(rate, 7, 0, 9, 9)},
			{after: 9 * time.Second, policy: policy(7, 1, 9), want: allowed(7, 0, 9)},
			{after: time.Second, policy: policy(7, 1, 9), want: refused(rate, 7, 0, 8, 8)},
			{after: 8 * time.Second, policy: policy(7, 1, 9), want: allowed(7, 0, 9)},
		}},
		{"8 a 429 by rate takes nothing, so asking again does not push the wait out", []step{
			{policy: policy(1, 1, 9), want: allowed(1, 0, 60)},
			{after: 30 * time.Second, policy: policy(1, 1, 9), want: refused(rate, 1, 0, 30, 30)},
			{after: 29 * time.Second, policy: policy(1, 1, 9), want: refused(rate, 1, 0, 1, 1)},
			{after: time.Second, policy: policy(1, 1, 9), want: allowed(1, 0, 60)},
		}},
		{"8 concurrency: 429 with Retry-After 1, and counted", []step{
			{policy: policy(1, 3, 1), want: allowed(1, 2, 1)},
			{policy: policy(1, 3, 1), want: refused(concurrency, 1, 1, 1, 1)},
			{policy: policy(1, 3, 1), want: refused(concurrency, 1, 0, 60, 1)},
			{policy: policy(1, 3, 1), want: refused(rate, 1, 0, 60, 60)},
			{release: []int{0}, policy: policy(1, 3, 1), want: refused(rate, 1, 0, 60, 60)},
		}},
		{"8 concurrency: a place is free once a read has ended", []step{
			{policy: policy(60, 9, 2), want: allowed(60, 8, 1)},
			{policy: policy(60, 9, 2), want: allowed(60, 7, 1)},
			{policy: policy(60, 9, 2), want: refused(concurrency, 60, 6, 1, 1)},
			{release: []int{0}, policy: policy(60, 9, 2), want: allowed(60, 5, 1)},
			{policy: policy(60, 9, 2), want: refused(concurrency, 60, 4, 1, 1)},
		}},
		{"8 concurrency: the lease of a dead server ends after 30 s", []step{
			{policy: policy(1, 9, 1), want: allowed(1, 8, 1)},
			{after: 29999 * time.Millisecond, policy: policy(1, 9, 1), want: refused(concurrency, 1, 7, 1, 1)},
			{after: time.Millisecond, policy: policy(1, 9, 1), want: allowed(1, 6, 1)},
			{policy: policy(1, 9, 1), want: refused(concurrency, 1, 5, 1, 1)},
			{release: []int{0}, policy: policy(1, 9, 1), want: refused(concurrency, 1, 4, 1, 1)}, // not the new lease
		}},
		{"8 a smaller burst holds at once", []step{
			{policy: policy(1, 100, 9), want: allowed(1, 99, 1)},
			{policy: policy(1, 2, 9), want: allowed(1, 1, 1)},
			{policy: policy(1, 100, 9), want: allowed(1, 0, 60)},
			{policy: policy(1, 100, 9), want: refused(rate, 1, 0, 60, 60)},
		}},
		{"8 a larger burst fills at the rate", []step{
			{policy: policy(60, 1, 9), want: allowed(60, 0, 1)},
			{after: 5 * time.Second, policy: policy(60, 10, 9), want: allowed(60, 4, 1)},
		}},
		{"8 another rate holds at once", []step{
			{policy: policy(1, 1, 9), want: allowed(1, 0, 60)},
			{policy: policy(6, 1, 9), want: refused(rate, 6, 0, 10, 10)},
			{after: 10 * time.Second, policy: policy(6, 1, 9), want: allowed(6, 0, 10)},
		}},
		{"8 a smaller concurrency holds at once, and lets what runs end", []step{
			{policy: policy(1, 9, 2), want: allowed(1, 8, 1)},
			{policy: policy(1, 9, 2), want: allowed(1, 7, 1)},
			{release: []int{0}, policy: policy(1, 9, 1), want: refused(concurrency, 1, 6, 1, 1)},
			{release: []int{1}, policy: policy(1, 9, 1), want: allowed(1, 5, 1)},
		}},
		{"8 a clock that is behind neither refills nor empties", []step{
			{policy: policy(60, 2, 9), want: allowed(60, 1, 1)},
			{after: -5 * time.Second, policy: policy(60, 2, 9), want: allowed(60, 0, 1)},
			{after: 5 * time.Second, policy: policy(60, 2, 9), want: refused(rate, 60, 0, 1, 1)},
		}},
	} {
		// One after the other: they share the clock that they move.
		t.Run(test.name, func(t *testing.T) {
			client := f.newClient(t)
			decisions := make([]ratelimit.Decision, len(test.steps))
			for i, step := range test.steps {
				f.advance(t, step.after)
				for _, n := range step.release {
					release(t, &decisions[n])
				}
				decisions[i] = admit(t, f.servers[0], client, step.policy)
				if diff := cmp.Diff(step.want, decisions[i], visible); diff != "" {
					t.Fatalf("request %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func testRelease(t *testing.T, f fleet) {
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 100, ConcurrentReads: 1}
	first := admit(t, f.servers[0], client, policy)
	again := first
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Release(ended); err != nil {
		t.Fatalf("release after the request's context ended: %v", err)
	}
	if second := admit(t, f.servers[1], client, policy); !second.Allowed {
		t.Fatalf("after the release: %+v, want allowed", second)
	}
	release(t, &first)
	release(t, &again) // a copy, whose lease has ended as well
	third := admit(t, f.servers[0], client, policy)
	if third.Reason != ratelimit.ReasonConcurrency {
		t.Fatalf("a second release freed another request's place: %+v", third)
	}
	release(t, &third) // a refusal has nothing to release
	if fourth := admit(t, f.servers[1], client, policy); fourth.Reason != ratelimit.ReasonConcurrency {
		t.Fatalf("the release of a refusal freed a place: %+v", fourth)
	}
}

func testClientsApart(t *testing.T, f fleet) {
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 1, ConcurrentReads: 1}
	for _, client := range []uuid.UUID{f.newClient(t), f.newClient(t)} {
		if got := admit(t, f.servers[0], client, policy); !got.Allowed {
			t.Errorf("first request of a client: %+v, want allowed", got)
		}
	}
}

func testSharedBucket(t *testing.T, f fleet) {
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 60, Burst: 25, ConcurrentReads: 10000}
	for round, want := range []int64{25, 7} {
		if round > 0 {
			f.advance(t, 7*time.Second)
		}
		var admitted atomic.Int64
		together(f.servers, 8, func(server limiter) {
			for range 5 {
				if admit(t, server, client, policy).Allowed {
					admitted.Add(1)
				}
			}
		})
		if got := admitted.Load(); got != want {
			t.Errorf("round %d: admitted %d requests, want %d", round, got, want)
		}
	}
}

func testRunningClock(t *testing.T, f fleet) {
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 6000, Burst: 20, ConcurrentReads: 10000}
	var admitted atomic.Int64
	start := time.Now()
	together(f.servers, 8, func(server limiter) {
		for range 25 {
			decision := admit(t, server, client, policy)
			if decision.Allowed {
				admitted.Add(1)
				release(t, &decision)
			}
		}
	})
	most := 20 + 100*time.Since(start).Seconds() + 1
	if got := admitted.Load(); got < 20 || float64(got) > most {
		t.Errorf("admitted %d requests, want 20 to %.1f", got, most)
	}
}

func testSharedLeases(t *testing.T, f fleet) {
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1000000, Burst: 1000000, ConcurrentReads: 3}
	var reads, admitted, refused atomic.Int64
	together(f.servers, 6, func(server limiter) {
		for range 25 {
			decision := admit(t, server, client, policy)
			if !decision.Allowed {
				refused.Add(1)
				continue
			}
			admitted.Add(1)
			if n := reads.Add(1); n > 3 {
				t.Errorf("%d reads run at one time, want at most 3", n)
			}
			runtime.Gosched()
			reads.Add(-1)
			release(t, &decision)
		}
	})
	t.Logf("admitted %d, refused %d", admitted.Load(), refused.Load())
	for i := range 4 {
		if got, want := admit(t, f.servers[0], client, policy).Allowed, i < 3; got != want {
			t.Errorf("request %d after all were released: allowed %t, want %t", i, got, want)
		}
	}
}

// together runs act n times at once for each server.
func together(servers []limiter, n int, act func(limiter)) {
	var group sync.WaitGroup
	for _, server := range servers {
		for range n {
			group.Go(func() { act(server) })
		}
	}
	group.Wait()
}

// visible compares what the edge can see of a decision.
var visible = cmpopts.IgnoreUnexported(ratelimit.Decision{})

func admit(t testing.TB, server limiter, client uuid.UUID, policy ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	decision, err := server.Admit(t.Context(), client, policy)
	if err != nil {
		t.Errorf("Admit: %v", err)
	}
	return decision
}

func release(t testing.TB, decision *ratelimit.Decision) {
	t.Helper()
	if err := decision.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// benchmarkLimiter measures one admission and one release, which is what the limiter adds to each activity read: of
// requests one after the other, and of eight at a time for each processor, all of one client.
func benchmarkLimiter(b *testing.B, server limiter, client uuid.UUID) {
	policy := ratelimit.Policy{RequestsPerMinute: 1000000, Burst: 1000000, ConcurrentReads: 10000}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decision := admit(b, server, client, policy)
			release(b, &decision)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				decision := admit(b, server, client, policy)
				release(b, &decision)
			}
		})
	})
}
