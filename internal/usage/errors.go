package usage

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/page"
)

// keptErrors is how many errors of a client the database keeps: its own, and those that named it without proof.
var keptErrors = map[bool]int32{true: 1000, false: 100}

// maxErrors bounds what waits in memory, and so what is written at once: own errors, and those of whoever names a client.
// All texts are the service's own, so that a client has a hundred or two different errors, however often it is refused.
var maxErrors = map[bool]int{true: 2000, false: 200}

// Refusal is a request that was refused, in fixed words of the service (package refusal).
type Refusal struct {
	ClientID uuid.UUID
	// Authenticated: the client proved who it is. Whoever did not is kept apart, because everybody can name every client.
	Authenticated           bool
	Operation, Code, Reason string
	Status                  int // of HTTP, 400 and up
}

// ClientError is a refusal as support sees it.
type ClientError struct {
	Refusal
	At       time.Time // of the last
	Requests int64     // that were refused like this within some seconds

	id uuid.UUID // nil until it is stored
}

// Key is the error's place in a list.
func (e ClientError) Key() page.Key { return page.Key{At: e.At, ID: e.id} }

// clientErrors wait to be written. Equal ones become one.
type clientErrors struct {
	mu      sync.Mutex
	waiting map[bool]map[Refusal]ClientError // by whether the client is authenticated
}

// Refuse notes a refused request that came from a network. It never waits for the database, and drops what is beyond the bounds.
func (u *Usage) Refuse(refusal Refusal, from netip.Prefix) {
	now := u.now()
	if !refusal.Authenticated && !u.errors.waits(refusal) && !u.unproven.take(refusal.ClientID, from, now) {
		return
	}
	u.errors.add(ClientError{Refusal: refusal, At: now, Requests: 1})
}

const (
	// unprovenErrors is how many errors without proof a network can leave with a client in an hour, on each server: a stranger
	// pushes out no more than these of the hundred that are kept.
	unprovenErrors = 10
	// maxUnproven bounds the pairs of client and network that are remembered. Beyond it nothing without proof is noted.
	maxUnproven = 10_000
)

// unproven counts the errors without proof of the present hour.
type unproven struct {
	mu    sync.Mutex
	hour  time.Time
	noted map[unprovenKey]int
}

type unprovenKey struct {
	clientID uuid.UUID
	from     netip.Prefix
}

// take reports whether one more may be noted.
func (u *unproven) take(clientID uuid.UUID, from netip.Prefix, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if hour := now.Truncate(time.Hour); u.noted == nil || !hour.Equal(u.hour) {
		u.hour, u.noted = hour, map[unprovenKey]int{}
	}
	key := unprovenKey{clientID, from}
	before, known := u.noted[key]
	if before == unprovenErrors || !known && len(u.noted) == maxUnproven {
		return false
	}
	u.noted[key]++
	return true
}

// waits says whether an equal one waits, to which one more adds no row.
func (e *clientErrors) waits(refusal Refusal) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, waits := e.waiting[refusal.Authenticated][refusal]
	return waits
}

func (e *clientErrors) add(one ClientError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := e.waiting[one.Authenticated]
	before, known := waiting[one.Refusal]
	switch {
	case !known && len(waiting) >= maxErrors[one.Authenticated]:
		return
	case waiting == nil:
		waiting = map[Refusal]ClientError{}
		e.waiting[one.Authenticated] = waiting
	}
	one.Requests += before.Requests
	if one.At.Before(before.At) {
		one.At = before.At
	}
	waiting[one.Refusal] = one
}

func (e *clientErrors) take(authenticated bool) map[Refusal]ClientError {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.waiting[authenticated]
	delete(e.waiting, authenticated)
	return taken
}

// flushErrors writes what waits, own errors first, each part by itself. What cannot be written waits for the next time.
func (u *Usage) flushErrors(ctx context.Context) {
	for _, authenticated := range []bool{true, false} {
		taken := u.errors.take(authenticated)
		if len(taken) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, u.flushLimit)
		err := u.addErrors(limited, taken, keptErrors[authenticated])
		cancel()
		if err != nil {
			u.logger.ErrorContext(ctx, "the errors of clients wait", "rows", len(taken), "cause", err)
			for _, one := range taken {
				u.errors.add(one)
			}
		}
	}
}
