//go:build timed

package sdk_test

import (
	"testing"

	"connect.invalid/connect-go/connect"

	"connect-svc/internal/testing/pgtest"
)

// Three processes with the usual registration: at most one of a hundred requests is refused, and what the policy allows is used.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]int{"3 x 10": 10, "3 x 3": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const reads = 1530
			sent, refused, took := fleet{
				processes: 3, workers: 10, reads: reads, config: connect.Config{ConcurrentReads: atOnce},
				client: func(c *pgtest.Client) { c.RequestsPerMinute, c.Burst, c.ConcurrentReads = 600, 60, 10 },
			}.run(t)
			rate := reads / took.Seconds() / 10
			t.Logf("%d requests in %.1f s, %d of them 429 (%.2f %%), at %.3f of 600 a minute", sent, took.Seconds(), refused, 100*float64(refused)/float64(sent), rate)
			if 100*refused > sent || rate < 0.9 {
				t.Error("want 1 % of 429, and 0.9 of the rate")
			}
		})
	}
}
