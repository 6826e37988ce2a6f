package ratelimit

import (
	"time"

	"github.com/google/uuid"
)

// These are exported for tests.
const (
	OutOfOrder    = outOfOrder
	ReleaseWithin = releaseWithin
	AskAgainAfter = askAgainAfter
)

// SetTimeLimit sets the time limit of a question to the store.
func (l *Limiter) SetTimeLimit(d time.Duration) { l.timeLimit = d }

// Unreleased returns how many leases of a client wait for their release.
func (l *Limiter) Unreleased(clientID uuid.UUID) int {
	known, _ := l.clients.Load(clientID)
	c := known.(*client)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// At has the store take the age of connections from another clock.
func (r *Redis) At(now func() time.Time) { r.now = now }

// After moves the clock of the store on, and stops it there.
func (r *Redis) After(d time.Duration) {
	now := r.now().Add(d)
	r.At(func() time.Time { return now })
}

// These are exported for tests.
const (
	RedialAfter = redialAfter
	MaxAge      = maxAge
)
