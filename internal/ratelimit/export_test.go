package ratelimit

import "time"

// SetTimeLimit of what is asked of the store at one time: tests have more patience with a busy machine, or less.
func (l *Limiter) SetTimeLimit(d time.Duration) { l.timeLimit = d }
