package demo

import (
	"os"
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

// A file that a start left empty, because it was killed or the disk was full, is made anew: above all the operator's token, since an
// empty one would let everybody in.
func TestFilesCutOff(t *testing.T) {
	t.Parallel()
	d := demo{config: Config{Dir: t.TempDir()}}
	for _, file := range []string{"operator-token", "partner.json"} {
		if err := os.WriteFile(d.path(file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token, err := openOperatorToken(d.path("operator-token"))
	if err != nil || len(token) < 32 {
		t.Errorf("the operator's token has %d characters: %v", len(token), err)
	}
	if again, err := openOperatorToken(d.path("operator-token")); err != nil || again != token {
		t.Errorf("the next start has another token: %v", err)
	}
	if _, found, err := d.findRegistration(t.Context()); err != nil || found {
		t.Errorf("the partner's registration: found %t, %v", found, err)
	}
}
