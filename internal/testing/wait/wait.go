// Package wait has tests wait for what the program does in its own time. No test depends on how fast the machine is: the only
// bound is [Limit], after which something is taken to hang.
package wait

import (
	"testing"
	"time"

	"connect-svc/internal/foundation/work"
)

// Limit is how long a test waits before it says that something hangs. It is far longer than anything takes on a busy machine.
const Limit = 2 * time.Minute

// pollInterval is how often Until looks.
const pollInterval = 5 * time.Millisecond

// Until waits until happened returns true. If that takes longer than Limit, the test fails and names what it waited for.
func Until(t testing.TB, event string, happened func() bool) {
	t.Helper()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	for end := time.After(Limit); !happened(); {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("waited %s in vain: %s", Limit, event)
		}
	}
}

// For receives from a channel. If nothing comes within Limit, the test fails and names what it waited for.
func For[T any](t testing.TB, event string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Limit):
		t.Fatalf("waited %s in vain: %s", Limit, event)
		panic("not reached")
	}
}

// Patient are limits that nothing reaches on a busy machine, in the order of [work.DefaultLimits]: what is asked for an answer gives up
// before the answer does. An email leaves sooner than it would, because a test waits for it.
var Patient = work.Limits{
	Read:  Limit + 2*step,
	Act:   Limit + 3*step,
	Batch: Limit + 4*step,

	Head:    Limit,
	Request: Limit + 2*step,
	Body:    Limit,

	Statement:       Limit + step,
	Overdue:         Limit + 2*step,
	IdleTransaction: 2 * Limit,

	Recognize:    Limit,
	Limiter:      Limit + step,
	Replica:      Limit,
	ReplicaCheck: Limit,
	ReplicaLag:   Limit,

	Mail:      Limit + step,
	MailDelay: 20 * time.Millisecond,

	Claim:    Limit,
	Webhook:  Limit,
	MailSend: Limit,
	Flush:    Limit,
	Drain:    Limit,
	Leave:    Limit,
	Stop:     Limit + step,

	Check:    Limit + 2*step,
	Database: Limit,
	Partner:  2 * Limit,
	Count:    2 * Limit,
	Search:   Limit,
	Settle:   Limit,
	Probe:    Limit + step,
	Facts:    Limit + step,
	Scrape:   Limit + step,
}

const step = 10 * time.Second

// Stalls measures for how long the machine, which others use, too, lets this process wait for its turns: the waits that are long
// enough to be no mere chance, all together. Call lost once, at the end.
func Stalls() (lost func() time.Duration) {
	const every, noticeable = 5 * time.Millisecond, 50 * time.Millisecond
	done, measured := make(chan struct{}), make(chan time.Duration)
	go func() {
		turns := time.NewTicker(every)
		defer turns.Stop()
		last, sum, ended := time.Now(), time.Duration(0), false
		for !ended {
			select {
			case <-turns.C:
			case <-done:
				ended = true
			}
			now := time.Now()
			if stall := now.Sub(last) - every; stall > noticeable {
				sum += stall
			}
			last = now
		}
		measured <- sum
	}()
	return func() time.Duration {
		close(done)
		return <-measured
	}
}

// InTime fails the test if something took longer than is promised. If that may be due to the machine, which stalled meanwhile (see
// [Stalls]), the failure says that nothing can be told. It is for tests of promised times alone, which have the build tag timed.
func InTime(t testing.TB, event string, took, promised, stalled time.Duration) {
	t.Helper()
	switch {
	case took <= promised:
	case took <= promised+stalled:
		t.Errorf("the machine was too busy to tell: %s took %s, promised are %s, and this process got no turn for %s", event, took, promised, stalled)
	default:
		t.Errorf("%s took %s, promised are %s; this process got no turn for %s", event, took, promised, stalled)
	}
}
