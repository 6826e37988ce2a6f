package ratelimit

import "time"

// SetTimeLimit of an admission and a release: tests have more patience with a busy machine, or less.
func (p *Postgres) SetTimeLimit(d time.Duration) { p.timeLimit = d }
