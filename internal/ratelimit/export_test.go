package ratelimit

import (
	"time"

	"github.com/redis/rueidis"
)

// SetTimeLimit of an admission and a release: tests have more patience with a busy machine, or less.
func (p *Postgres) SetTimeLimit(d time.Duration) { p.timeLimit = d }

// SetTimeLimit is the same for Redis.
func (r *Redis) SetTimeLimit(d time.Duration) { r.timeLimit = d }

// SetClock puts another clock before the script.
func (r *Redis) SetClock(script string) { r.admit = rueidis.NewLuaScript(script + admitScript) }
