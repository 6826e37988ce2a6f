package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/ratelimit"
)

// memory is a store in this process, for faults at a place that no real store has them at.
type memory struct {
	mu     sync.Mutex
	text   string
	sets   int    // texts that were set
	before func() // is done once before a text is compared
	away   bool   // once, when the text is loaded next
	lost   bool   // once, when a text is to be set next: nothing is set, and nobody knows
	full   bool   // nothing is set, as by a Redis that is full
}

func (m *memory) ID(context.Context) (string, error) { return "memory", nil }

func (m *memory) Load(context.Context, uuid.UUID) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		m.away = false
		return "", errors.New("away")
	}
	return m.text, nil
}

func (m *memory) Check(context.Context) error { return nil }

func (m *memory) CompareAndSet(_ context.Context, _ uuid.UUID, old, next string, _ time.Duration) (bool, error) {
	if before := m.before; before != nil {
		m.before = nil
		before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost || m.full {
		m.lost = false
		return false, errors.New("away")
	}
	if m.text != old {
		return false, nil
	}
	m.text = next
	m.sets++
	return true, nil
}

// A question that another server was faster than has given nothing: what it would have given is not taken from the other.
func TestLostQuestionReleasesNothing(t *testing.T) {
	t.Parallel()
	store, id := new(memory), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 10, ConcurrentReads: 1}
	slower, faster := patient(store), patient(store)
	store.before = func() {
		if got := admit(t, faster, id, policy, start); !got.Allowed {
			t.Errorf("the faster server: %+v", got)
		}
		store.away = true
	}
	if got, err := slower.Admit(t.Context(), id, policy, start); err == nil {
		t.Fatalf("the store was away: %+v", got)
	}
	if got := admit(t, slower, id, policy, start); got.Reason != ratelimit.ReasonConcurrency {
		t.Errorf("while the other server's read runs: %+v", got)
	}
}

// An admission of unknown outcome is not taken from a server that gave the same at that time.
func TestUnknownQuestionReleasesItsOwn(t *testing.T) {
	t.Parallel()
	store, id := new(memory), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 10, ConcurrentReads: 1}
	one, other := patient(store), patient(store)
	store.lost = true
	if got, err := one.Admit(t.Context(), id, policy, start); err == nil {
		t.Fatalf("the store was away: %+v", got)
	}
	if got := admit(t, other, id, policy, start); !got.Allowed {
		t.Errorf("the other server: %+v", got)
	}
	if got := admit(t, one, id, policy, start); got.Reason != ratelimit.ReasonConcurrency {
		t.Errorf("while the other server's read runs: %+v", got)
	}
}

// A state of a clock that was an hour ahead refuses nobody for longer than its bucket takes to fill, or five seconds, and gives nothing
// twice. That holds for the server that knows the state, and for another one.
func TestStateOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	policy := ratelimit.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 1}
	for name, other := range map[string]bool{"the same server": false, "another server": true} {
		store, id := new(memory), uuid.New()
		server := patient(store)
		for range policy.Burst { // the bucket is empty, and one read runs
			admit(t, server, id, policy, start.Add(time.Hour))
		}
		if other {
			server = patient(store)
		}
		if got := admit(t, server, id, policy, start); got.Allowed || got.Remaining != 0 {
			t.Errorf("%s: with an empty bucket: %+v", name, got)
		}
		if got := admit(t, server, id, policy, start.Add(time.Second)); !got.Allowed || got.Remaining != 9 {
			t.Errorf("%s: a second later: %+v", name, got)
		}
		if got := admit(t, server, id, policy, start.Add(time.Second-ratelimit.OutOfOrder)); got.Remaining != 8 { // overtaken
			t.Errorf("%s: a request that was overtaken: %+v", name, got)
		}
	}
}

// The same state of another version gives the least that there can be in its place: an empty bucket.
func TestStateOfAnotherVersionThatWasAhead(t *testing.T) {
	t.Parallel()
	policy := ratelimit.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 1}
	store, id := &memory{text: fmt.Sprintf(`{"version":2,"at":%d}`, start.Add(time.Hour).UnixMicro())}, uuid.New()
	server := patient(store)
	if got := admit(t, server, id, policy, start); got.Allowed || got.Remaining != 0 {
		t.Errorf("at once: %+v", got)
	}
	if got := admit(t, server, id, policy, start.Add(time.Second)); !got.Allowed || got.Remaining != 9 {
		t.Errorf("a second later: %+v", got)
	}
}

// A read that ends after the store did not answer a question ends its own lease, and changes nothing else.
func TestReleaseAfterAFailedQuestion(t *testing.T) {
	t.Parallel()
	store, id := new(memory), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 5, ConcurrentReads: 2}
	server := patient(store)
	ended := admit(t, server, id, policy, start)
	admit(t, patient(store), id, policy, start) // it goes on at another server
	store.lost = true
	if got, err := server.Admit(t.Context(), id, policy, start.Add(time.Second)); err == nil {
		t.Fatalf("the store was away: %+v", got)
	}
	release(t, &ended)
	if got := admit(t, server, id, policy, start); !got.Allowed || got.Remaining != 2 {
		t.Errorf("after the release: %+v, want the third request of five", got)
	}
	if got := admit(t, server, id, policy, start); got.Reason != ratelimit.ReasonConcurrency {
		t.Errorf("with a read at each server: %+v", got)
	}
}

// A store that loads texts and refuses new ones, as a Redis does that is full, may do so for hours. Requests leave nothing behind that the next
// ones would have to go through. A read that ends meanwhile is released afterwards.
func TestStoreThatRefusesTexts(t *testing.T) {
	t.Parallel()
	store, id := new(memory), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 10, ConcurrentReads: 2}
	server := patient(store)
	ended := admit(t, server, id, policy, start)
	store.full = true
	for range 1000 {
		if got, err := server.Admit(t.Context(), id, policy, start); err == nil {
			t.Fatalf("the store is full: %+v", got)
		}
	}
	if err := ended.Release(t.Context()); err == nil {
		t.Error("a lease was released in a store that is full")
	}
	if n := server.Unreleased(id); n > 3*policy.ConcurrentReads {
		t.Errorf("%d leases wait for their release", n)
	}
	store.full = false
	for range policy.ConcurrentReads {
		if got := admit(t, server, id, policy, start); !got.Allowed {
			t.Errorf("afterwards: %+v", got)
		}
	}
}

// A release waits for the next admission, or for [ratelimit.ReleaseWithin] at most, while less than half of the leases are used.
func TestReleaseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, id := new(memory), uuid.New()
		policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 10, ConcurrentReads: 3}
		server := patient(store)
		check := func(after string, sets, leases int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(store.text, `"end"`); store.sets != sets || got != leases {
				t.Errorf("%s: %d texts were set, and there are leases of %d instants; want %d and %d", after, store.sets, got, sets, leases)
			}
		}
		first := admit(t, server, id, policy, start)
		release(t, &first)
		check("the first release", 1, 1)
		second := admit(t, server, id, policy, start)
		check("the next admission", 2, 1)
		release(t, &second)
		<-time.After(ratelimit.ReleaseWithin)
		check("the longest wait", 3, 0)
		third, fourth := admit(t, server, id, policy, start), admit(t, server, id, policy, start)
		release(t, &third)
		check("a release while most leases are used", 6, 1)
		release(t, &fourth)
		check("a release while one lease is used", 6, 1)
		server.Flush(t.Context())
		check("the end", 7, 0)
	})
}

// A request that finds all leases taken, some of them by another server, is decided once their releases cannot wait any more. Until then
// it costs nothing. The leases of its own server do not wait.
func TestRefusalWaitsForOtherServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, id := new(memory), uuid.New()
		policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 10, ConcurrentReads: 3}
		one, other := patient(store), patient(store)
		began := time.Now()
		held := admit(t, one, id, policy, start)
		release(t, &held) // it waits
		var running []ratelimit.Decision
		for range 3 {
			running = append(running, admit(t, other, id, policy, start))
		}
		for _, decision := range running {
			if !decision.Allowed {
				t.Errorf("while a release waits: %+v", decision)
			}
		}
		if waited := time.Since(began); waited != ratelimit.AskAgainAfter {
			t.Errorf("the answers took %v, want %v", waited, ratelimit.AskAgainAfter)
		}
		if got := admit(t, other, id, policy, start); got.Reason != ratelimit.ReasonConcurrency || time.Since(began) != ratelimit.AskAgainAfter {
			t.Errorf("with all leases at its own server: %+v after %v", got, time.Since(began))
		}
		if got := admit(t, one, id, policy, start); got.Reason != ratelimit.ReasonConcurrency || got.Remaining != 4 ||
			time.Since(began) != 2*ratelimit.AskAgainAfter {
			t.Errorf("with all leases at the other server: %+v after %v, want the sixth request of ten", got, time.Since(began))
		}
	})
}
