package wait

import (
	"testing"
	"time"
)

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
func InTime(t testing.TB, what string, took, promised, stalled time.Duration) {
	t.Helper()
	switch {
	case took <= promised:
	case took <= promised+stalled:
		t.Errorf("the machine was too busy to tell: %s took %s, promised are %s, and this process got no turn for %s", what, took, promised, stalled)
	default:
		t.Errorf("%s took %s, promised are %s; this process got no turn for %s", what, took, promised, stalled)
	}
}
