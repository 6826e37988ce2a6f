//go:build timed

package sandbox

import (
	"testing"
	"time"

	"connect-svc/internal/timelimit"
)

// promised is for every operation (decisions, section 5).
const promised = 5 * time.Second

// Everything is answered in time, as documented, even if something is away.
func TestTimedStandstill(t *testing.T) {
	start(t, withDefaultLimits).standstill(t, timelimit.Default.Act, promised)
}

// The same while the users record.
func TestTimedStandstillAtMidnight(t *testing.T) {
	start(t, withDefaultLimits).standstillAtMidnight(t, timelimit.Default.Act, promised)
}

func withDefaultLimits(c *Config) { c.Limits = timelimit.Default }
