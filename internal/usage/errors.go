package usage

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
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

// ErrorPosition is where a list of errors goes on: after the last one of the page before. The zero value is before the first.
type ErrorPosition struct {
	At time.Time
	ID uuid.UUID
}

// Position is the error's place among those of its client.
func (e ClientError) Position() ErrorPosition { return ErrorPosition{e.At, e.id} }

// clientErrors wait to be written. Equal ones become one.
type clientErrors struct {
	mu      sync.Mutex
	waiting map[bool]map[Refusal]ClientError // by whether the client is authenticated
}

// Refuse notes a refused request. It never waits for the database, and drops what is beyond the bounds.
func (u *Usage) Refuse(refusal Refusal) {
	u.errors.add(ClientError{Refusal: refusal, At: u.now(), Requests: 1})
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
