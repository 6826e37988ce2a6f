// Package wait has tests wait for what the program does in its own time. No test depends on how fast the machine is: the only
// bound is [Limit], after which something is taken to hang.
package wait

import (
	"testing"
	"time"
)

// Limit is how long a test waits before it says that something hangs. It is far longer than anything takes on a busy machine.
const Limit = 2 * time.Minute

// pollInterval is how often Until looks.
const pollInterval = 5 * time.Millisecond

// Until waits until happened returns true. If that takes longer than Limit, the test fails and names what it waited for.
func Until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	for end := time.After(Limit); !happened(); {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("waited %s in vain: %s", Limit, what)
		}
	}
}

// For receives from a channel. If nothing comes within Limit, the test fails and names what it waited for.
func For[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Limit):
		t.Fatalf("waited %s in vain: %s", Limit, what)
		panic("not reached")
	}
}
