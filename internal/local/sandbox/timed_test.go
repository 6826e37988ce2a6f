//go:build timed

package sandbox

import (
	"testing"
	"time"

	"connect-svc/internal/foundation/work"
)

// promised is for every operation (decisions, section 5).
const promised = 5 * time.Second

// Everything is answered in time, as documented, even if something is away.
func TestTimedStandstill(t *testing.T) {
	start(t, withDefaultLimits).standstill(t, work.DefaultLimits.Act, promised)
}

// The same while the users record.
func TestTimedStandstillAtMidnight(t *testing.T) {
	start(t, withDefaultLimits).standstillAtMidnight(t, work.DefaultLimits.Act, promised)
}

func withDefaultLimits(c *Config) { c.Limits = work.DefaultLimits }
