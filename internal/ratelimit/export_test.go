package ratelimit

import "time"

// OutOfOrder is exported for tests.
const OutOfOrder = outOfOrder

// SetTimeLimit sets the time limit of a question to the store.
func (l *Limiter) SetTimeLimit(d time.Duration) { l.timeLimit = d }
