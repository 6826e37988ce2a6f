package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/testing/wait"
)

// fleet is servers that share one limit, their store, and its clients.
type fleet struct {
	store     ratelimit.Store
	servers   []*ratelimit.Limiter
	newClient func(testing.TB) uuid.UUID
}

// testStore holds servers to the rules that keep their limits in a store.
func testStore(t *testing.T, newFleet func(t *testing.T, servers int) fleet) {
	for name, test := range map[string]func(*testing.T, func(*testing.T, int) fleet){
		"rules":                                   testRules,
		"8 release ends a lease once":             testRelease,
		"8 clients have limits of their own":      testClientsApart,
		"8 all servers share one bucket":          testSharedBucket,
		"8 all servers share the leases":          testSharedLeases,
		"a server that starts finds what is kept": testRestart,
		"8 out of budget is known without asking": testOutOfBudget,
		"who leaves holds no lease":               testLeaving,
		"a state of another version":              testAnotherVersion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFleet)
		})
	}
}

// step is one request of a client, after the clock has moved and leases have been released.
type step struct {
	after   time.Duration
	release []int // numbers of earlier steps, from 0
	policy  ratelimit.Policy
	want    ratelimit.Decision
}

func testRules(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 1)
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
			{after: -5 * time.Second, policy: policy(60, 2, 9), want: allowed(60, 0, 6)},
			{after: 5 * time.Second, policy: policy(60, 2, 9), want: refused(rate, 60, 0, 1, 1)},
		}},
		{"8 Retry-After: waiting that long is enough, also after the clock was set back", []step{
			{policy: policy(60, 1, 9), want: allowed(60, 0, 1)},
			{after: -3 * time.Second, policy: policy(60, 1, 9), want: refused(rate, 60, 0, 4, 4)},
			{after: 4 * time.Second, policy: policy(60, 1, 9), want: allowed(60, 0, 1)},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, now := f.newClient(t), start
			decisions := make([]ratelimit.Decision, len(test.steps))
			for i, step := range test.steps {
				now = now.Add(step.after)
				for _, n := range step.release {
					release(t, &decisions[n])
				}
				decisions[i] = admit(t, f.servers[0], client, step.policy, now)
				if diff := cmp.Diff(step.want, decisions[i], visible); diff != "" {
					t.Fatalf("request %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func testRelease(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 2)
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 100, ConcurrentReads: 1}
	first := admit(t, f.servers[0], client, policy, start)
	again := first
	release(t, &first)
	if second := admit(t, f.servers[1], client, policy, start); !second.Allowed {
		t.Fatalf("after the release: %+v, want allowed", second)
	}
	release(t, &first)
	release(t, &again) // a copy, whose lease has ended as well
	third := admit(t, f.servers[0], client, policy, start)
	if third.Reason != ratelimit.ReasonConcurrency {
		t.Fatalf("a second release freed another request's place: %+v", third)
	}
	release(t, &third) // a refusal has nothing to release
	if fourth := admit(t, f.servers[1], client, policy, start); fourth.Reason != ratelimit.ReasonConcurrency {
		t.Fatalf("the release of a refusal freed a place: %+v", fourth)
	}
}

func testClientsApart(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 1)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 1, ConcurrentReads: 1}
	for _, client := range []uuid.UUID{f.newClient(t), f.newClient(t)} {
		if got := admit(t, f.servers[0], client, policy, start); !got.Allowed {
			t.Errorf("first request of a client: %+v, want allowed", got)
		}
	}
}

func testSharedBucket(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 3)
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 60, Burst: 25, ConcurrentReads: 10000}
	for round, want := range []int64{25, 7} {
		now := start.Add(time.Duration(round) * 7 * time.Second)
		var admitted atomic.Int64
		together(f.servers, 8, func(server *ratelimit.Limiter) {
			for range 5 {
				if admit(t, server, client, policy, now).Allowed {
					admitted.Add(1)
				}
			}
		})
		if got := admitted.Load(); got != want {
			t.Errorf("round %d: admitted %d requests, want %d", round, got, want)
		}
	}
}

func testSharedLeases(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 3)
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1000000, Burst: 1000000, ConcurrentReads: 3}
	var reads, admitted, refused atomic.Int64
	together(f.servers, 6, func(server *ratelimit.Limiter) {
		for range 25 {
			decision := admit(t, server, client, policy, start)
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
	held := 0
	wait.Until(t, "all leases are free", func() bool { // a release may wait, and a busy server writes it late
		if admit(t, f.servers[0], client, policy, start).Allowed {
			held++
		}
		return held == 3
	})
	if admit(t, f.servers[0], client, policy, start).Allowed {
		t.Error("a fourth read is admitted")
	}
}

func testRestart(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 2)
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 2, ConcurrentReads: 1}
	admit(t, f.servers[0], client, policy, start)
	if got := admit(t, f.servers[1], client, policy, start); got.Reason != ratelimit.ReasonConcurrency || got.Remaining != 0 {
		t.Errorf("another server: %+v, want no lease and nothing left", got)
	}
}

// A refusal for the rate takes nothing and asks nobody, and ends to the microsecond when the next request is due, also
// where another server has taken that.
func testOutOfBudget(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 2)
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 60, Burst: 1, ConcurrentReads: 100}
	due := start.Add(time.Second)
	admit(t, f.servers[0], client, policy, start)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // whoever waits for an answer has none
		got, err := f.servers[0].Admit(canceled, client, policy, due.Add(-time.Microsecond))
		if err != nil || got.Reason != ratelimit.ReasonRate || got.RetryAfterSeconds != 1 {
			t.Fatalf("before it is due: %+v, %v", got, err)
		}
	}
	if got := admit(t, f.servers[1], client, policy, due); !got.Allowed {
		t.Errorf("when it is due: %+v", got)
	}
	if got := admit(t, f.servers[0], client, policy, due); got.Allowed {
		t.Errorf("when it was taken by another server: %+v", got)
	}
}

// A caller that does not wait for the decision gives back what it is given.
func testLeaving(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 1)
	client := f.newClient(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 1000, ConcurrentReads: 3}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if decision, err := f.servers[0].Admit(canceled, client, policy, start); err == nil {
			release(t, &decision)
		}
	}
	wait.Until(t, "no lease is held by nobody", func() bool {
		decision := admit(t, f.servers[0], client, policy, start)
		release(t, &decision)
		return decision.Allowed
	})
	for i := range 3 {
		if got := admit(t, f.servers[0], client, policy, start); !got.Allowed {
			t.Errorf("read %d of three: %+v", i, got)
		}
	}
}

// A state of another version refuses reads, and stays as it is, until the bucket would be full and the leases over, whatever it says. Then
// it is replaced.
func testAnotherVersion(t *testing.T, newFleet func(*testing.T, int) fleet) {
	f := newFleet(t, 1)
	for name, test := range map[string]struct {
		text   string
		policy ratelimit.Policy
		over   time.Duration
	}{
		"a later one":                {`{"version":2,"at":%d,"credit":"much"}`, ratelimit.Policy{RequestsPerMinute: 60, Burst: 40, ConcurrentReads: 1}, 40 * time.Second},
		"a later one, and its lease": {`{"version":2,"at":%d}`, ratelimit.Policy{RequestsPerMinute: 60, Burst: 1, ConcurrentReads: 1}, ratelimit.LeaseLifetime},
		"none":                       {`{"credit":60000000,"at":%d}`, ratelimit.Policy{RequestsPerMinute: 60, Burst: 1, ConcurrentReads: 1}, ratelimit.LeaseLifetime},
	} {
		client, text := f.newClient(t), fmt.Sprintf(test.text, start.UnixMicro())
		if set, err := f.store.CompareAndSet(t.Context(), client, "", text, time.Hour); err != nil || !set {
			t.Fatalf("%s: %t, %v", name, set, err)
		}
		for _, after := range []time.Duration{0, test.over - time.Microsecond} {
			got, err := f.servers[0].Admit(t.Context(), client, test.policy, start.Add(after))
			if stored, _ := f.store.Load(t.Context(), client); err == nil || got.Allowed || stored != text {
				t.Errorf("%s, after %v: %+v, %v, stored %s", name, after, got, err, stored)
			}
		}
		got := admit(t, f.servers[0], client, test.policy, start.Add(test.over+time.Microsecond))
		stored, err := f.store.Load(t.Context(), client)
		if !got.Allowed || got.Remaining != test.policy.Burst-1 || err != nil || !strings.HasPrefix(stored, `{"version":1,`) {
			t.Errorf("%s, when it is over: %+v, stored %s, %v", name, got, stored, err)
		}
	}
}

// together runs act n times at once for each server.
func together(servers []*ratelimit.Limiter, n int, act func(*ratelimit.Limiter)) {
	var group sync.WaitGroup
	for _, server := range servers {
		for range n {
			group.Go(func() { act(server) })
		}
	}
	group.Wait()
}

// start is when most tests begin.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// visible compares what the edge can see of a decision.
var visible = cmpopts.IgnoreUnexported(ratelimit.Decision{})

func admit(t testing.TB, server *ratelimit.Limiter, client uuid.UUID, policy ratelimit.Policy, now time.Time) ratelimit.Decision {
	t.Helper()
	decision, err := server.Admit(context.Background(), client, policy, now)
	if err != nil {
		t.Errorf("Admit: %v", err)
	}
	return decision
}

func release(t testing.TB, decision *ratelimit.Decision) {
	t.Helper()
	if err := decision.Release(context.Background()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// benchmarkLimiter measures one admission and one release, which is what the limiter adds to each activity read: of
// requests one after the other, and of eight at a time for each processor, all of one client.
func benchmarkLimiter(b *testing.B, server *ratelimit.Limiter, client uuid.UUID) {
	policy := ratelimit.Policy{RequestsPerMinute: 1000000, Burst: 1000000, ConcurrentReads: 10000}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decision := admit(b, server, client, policy, time.Now())
			release(b, &decision)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				decision := admit(b, server, client, policy, time.Now())
				release(b, &decision)
			}
		})
	})
}
