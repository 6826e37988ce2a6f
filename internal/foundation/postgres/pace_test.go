package postgres

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Bulk work pauses after each part, for two fifths of the part's time and at most for a second. It does not wait for the end of a pause
// if it is interrupted.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(pace)
		for part, want := range map[time.Duration]time.Duration{
			10 * time.Millisecond: 4 * time.Millisecond, 2 * time.Second: 800 * time.Millisecond, time.Hour: time.Second,
		} {
			paused := time.Now()
			p.resumed = paused.Add(-part)
			if err := p.yield(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(paused); got != want {
				t.Errorf("a pause of %v after a part of %v, want %v", got, part, want)
			}
		}
		p.resumed = time.Now().Add(-time.Hour)
		interrupted, interrupt := context.WithCancel(t.Context())
		interrupt()
		paused := time.Now()
		if err := p.yield(interrupted); !errors.Is(err, context.Canceled) || time.Since(paused) != 0 {
			t.Errorf("%v after %v", err, time.Since(paused))
		}
	})
}
