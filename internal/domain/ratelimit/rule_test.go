package ratelimit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	policies = rapid.Custom(func(t *rapid.T) Policy {
		return Policy{
			RequestsPerMinute: rapid.IntRange(1, 1_000_000).Draw(t, "rpm"),
			Burst:             rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 1_000_000)).Draw(t, "burst"),
			ConcurrentReads:   rapid.IntRange(1, 20).Draw(t, "reads"),
		}
	})
	noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
)

// admitted is what a client got, and when.
type admitted struct {
	at   time.Time
	paid int
}

// Specification 8: in any span of time a client pays for at most burst requests and what refills in that span, and never
// holds more leases than it may, whatever it asks, when its reads end, and how the clocks of servers differ.
func TestRuleBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := policies.Draw(t, "policy")
		var s state
		now, latest := noon, time.Time{}
		var running []lease
		var got []admitted
		for range rapid.IntRange(1, 40).Draw(t, "questions") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Second), int64(40*time.Second)).Draw(t, "later")) / 1000 * 1000)
			if now.After(latest) {
				latest = now
			}
			if len(running) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				s = s.release(running[i : i+1])
				running = slices.Delete(slices.Clone(running), i, i+1)
			}
			n := rapid.IntRange(1, 30).Draw(t, "requests")
			before := s
			after, decisions := s.admit(policy, now, n, 1)
			again, decisionsAgain := before.admit(policy, now, n, 1)
			if !again.same(after) || !slices.Equal(decisions, decisionsAgain) {
				t.Fatal("the rule is no function of its arguments")
			}
			s = after
			running = slices.DeleteFunc(running, func(l lease) bool { return l.End <= latest.UnixMicro() })
			paid := 0
			for _, d := range decisions {
				if d.Reason != ReasonRate {
					paid++
				}
				if d.Allowed {
					running = append(running, d.lease)
				}
				if d.Remaining < 0 || d.Remaining >= max(policy.Burst, 1) && d.Reason != ReasonRate || d.ResetSeconds < 1 ||
					time.Duration(d.ResetSeconds)*time.Second > time.Minute+latest.Sub(now).Truncate(time.Second)+time.Second {
					t.Fatalf("%+v", d)
				}
			}
			if len(running) > policy.ConcurrentReads {
				t.Fatalf("%d leases of %d", len(running), policy.ConcurrentReads)
			}
			got = append(got, admitted{latest, paid})
		}
		for i := range got {
			sum := 0
			for _, g := range got[i:] {
				sum += g.paid
				refilled := g.at.Sub(got[i].at).Minutes() * float64(policy.RequestsPerMinute)
				if float64(sum) > float64(policy.Burst)+refilled+1e-6 {
					t.Fatalf("%d paid in %v, burst %d, %d a minute", sum, g.at.Sub(got[i].at), policy.Burst, policy.RequestsPerMinute)
				}
			}
		}
	})
}

// Requests that are decided together are decided as one after the other.
func TestRuleTogetherIsInTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := policies.Draw(t, "policy")
		s, _ := state{}.admit(policy, noon, rapid.IntRange(0, 30).Draw(t, "before"), 1)
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later")))
		n := rapid.IntRange(1, 30).Draw(t, "requests")
		after, decisions := s.admit(policy, now, n, 1)
		for i := range n {
			var one []Decision
			s, one = s.admit(policy, now, 1, 1)
			if one[0] != decisions[i] {
				t.Fatalf("request %d: %+v by itself, %+v together", i, one[0], decisions[i])
			}
		}
		if !s.same(after) {
			t.Fatalf("%+v one by one, %+v together", s, after)
		}
	})
}

// Of two reads that began at one moment at one server, the place of the one that is over is given back, once, even if it is released again
// because nobody knows whether it was. Servers with release 1.0 give both the same lease.
func TestReleaseOfOneOfTwo(t *testing.T) {
	t.Parallel()
	policy := Policy{RequestsPerMinute: 60, Burst: 10, ConcurrentReads: 2}
	both, decisions := state{}.admit(policy, noon, 2, 1)
	if !decisions[0].Allowed || !decisions[1].Allowed {
		t.Fatalf("two reads are answered %+v", decisions)
	}
	old := both
	old.Leases = []leases{{decisions[0].lease, 2}}
	for name, ended := range map[string]state{
		"released twice":      both.release([]lease{decisions[0].lease, decisions[0].lease}),
		"given by an old one": old.release([]lease{decisions[0].lease}),
	} {
		for _, want := range []bool{true, false} {
			if ended, decisions = ended.admit(policy, noon, 1, 1); decisions[0].Allowed != want {
				t.Errorf("%s: beside a read that is not over, another one is answered %+v", name, decisions)
			}
		}
	}
}

// Retry-After is enough, and one second less is not, also after the clock was set back.
func TestRuleRetryAfter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := policies.Draw(t, "policy")
		policy.Burst = rapid.IntRange(1, 20).Draw(t, "small burst")
		s, _ := state{}.admit(policy, noon, policy.Burst, 1)
		filled := time.Duration(policy.Burst) * time.Minute / time.Duration(policy.RequestsPerMinute)
		now := noon.Add(-time.Duration(rapid.Int64Range(0, int64(max(filled, outOfOrder))).Draw(t, "set back")) / 1000 * 1000)
		_, refused := s.admit(policy, now, 1, 1)
		wait := time.Duration(refused[0].RetryAfterSeconds) * time.Second
		if refused[0].Reason != ReasonRate {
			t.Fatalf("%+v from an empty bucket", refused[0])
		}
		if _, later := s.admit(policy, now.Add(wait), 1, 1); later[0].Reason == ReasonRate {
			t.Fatalf("refused after Retry-After %v", wait)
		}
		if wait > time.Second {
			if _, sooner := s.admit(policy, now.Add(wait-time.Second), 1, 1); sooner[0].Reason != ReasonRate {
				t.Fatalf("Retry-After %v is a second too long", wait)
			}
		}
	})
}

// After fullAfter a stored state changes no decision.
func TestRuleFullAfter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := policies.Draw(t, "policy")
		s, _ := state{}.admit(policy, noon, rapid.IntRange(1, 30).Draw(t, "before"), 1)
		later := noon.Add(s.fullAfter(policy))
		_, stored := s.admit(policy, later, 5, 1)
		_, forgotten := state{}.admit(policy, later, 5, 1)
		if !slices.Equal(stored, forgotten) {
			t.Fatalf("%+v with it, %+v without", stored, forgotten)
		}
	})
}
