package demo

import (
	"testing"
	"time"
)

// The first connection is 30 days old on the user's calendar at each hour of a year, also where the clocks were changed
// meanwhile.
func TestSinceConnected(t *testing.T) {
	t.Parallel()
	for _, p := range samplePeople() {
		location, err := time.LoadLocation(p.timezone)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Date(2026, time.January, 1, 0, 30, 0, 0, time.UTC)
		for now := start; now.Before(start.AddDate(1, 0, 0)); now = now.Add(time.Hour) {
			got := dateOf(now.Add(-sinceConnected(now, location)).In(location))
			if want := dateOf(now.In(location)).AddDate(0, 0, -connectedDays); !got.Equal(want) {
				t.Fatalf("%s: at %s connected on %s, want %s", p.name, now, got, want)
			}
		}
	}
}
