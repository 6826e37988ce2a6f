package ratelimit

import "time"

// These are exported for tests.
const (
	OutOfOrder    = outOfOrder
	ReleaseWithin = releaseWithin
	AskAgainAfter = askAgainAfter
)

// SetTimeLimit sets the time limit of a question to the store.
func (l *Limiter) SetTimeLimit(d time.Duration) { l.timeLimit = d }
