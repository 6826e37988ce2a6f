package ratelimit

import "time"

// SetTimeLimit sets the time limit of a question to the store.
func (l *Limiter) SetTimeLimit(d time.Duration) { l.timeLimit = d }
