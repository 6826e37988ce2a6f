package webhook

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// maxWorkers is how many events a server holds at the same time, being sent or waiting for their client's turn.
	maxWorkers = 1536
	// share is how many of them may be sent to one client.
	share = 8
	// maxQueue is how many more of one client wait here, and patience for how long: a receiver that answers gets what lies
	// ready for it without a way through the database, and one that hangs does not fill the workers.
	maxQueue = 40
	patience = 2 * time.Second
)

// Bounds of how often a client that has its share is looked after again: between its jobs lie these times. A client
// with a hundred thousand events that wait costs some twenty small queries a second and is through them within three hours.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 100 * time.Millisecond
	// leastWait is for how long a job waits at least when its client has its share.
	leastWait = 50 * time.Millisecond
)

// shares sees to it that no client has more than its share of the senders of this server. It has an entry for each
// client that is being sent to or waits.
type shares struct {
	mu      sync.Mutex
	clients map[uuid.UUID]*usage
}

type usage struct {
	sending int
	// queue is who waits here, the first first. Its turn is told by closing.
	queue []chan struct{}
	// took is how long a try takes at present, a moving average.
	took time.Duration
	// moved is when a try began or ended the last time.
	moved time.Time
	// next is when the next job of this client that has to wait elsewhere is to come again: one after the other.
	next time.Time
}

func newShares() *shares { return &shares{clients: map[uuid.UUID]*usage{}} }

// take begins a try, once it is the client's turn, or says how long its job is to wait. Call done after the try.
func (s *shares) take(ctx context.Context, client uuid.UUID) (wait time.Duration, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.clients[client]
	if u == nil {
		u = &usage{}
		s.clients[client] = u
	}
	switch {
	case u.sending < share:
		u.sending++
	case len(u.queue) >= maxQueue || !s.waitForTurn(ctx, u):
		return u.pause(time.Now()), nil
	}
	began := time.Now()
	u.moved = began
	return 0, func() { s.done(client, u, began) }
}

// waitForTurn waits among the others of a client. It is called under the lock, which it gives back meanwhile.
func (s *shares) waitForTurn(ctx context.Context, u *usage) bool {
	turn := make(chan struct{})
	u.queue = append(u.queue, turn)
	s.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-turn:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	if i := slices.Index(u.queue, turn); i >= 0 {
		u.queue = slices.Delete(u.queue, i, i+1)
		return false
	}
	return true // if need be, in the last moment
}

// pause is how long the next job of a client that has its share waits elsewhere.
func (u *usage) pause(now time.Time) time.Duration {
	if soonest := now.Add(leastWait); u.next.Before(soonest) {
		u.next = soonest
	}
	// Four times as fast as places become free at present: the first calls are slow, and the next ones may not be.
	between := max(u.took, now.Sub(u.moved)) / (4 * share)
	u.next = u.next.Add(min(max(between, leastPause), mostPause))
	return u.next.Sub(now) + rand.N(leastWait)
}

func (s *shares) done(client uuid.UUID, u *usage, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.moved = time.Now()
	u.took += (u.moved.Sub(began) - u.took) / share
	if len(u.queue) > 0 { // the place goes to the next one
		close(u.queue[0])
		u.queue = slices.Delete(u.queue, 0, 1)
		return
	}
	u.sending--
	if u.sending == 0 && u.next.Before(u.moved) {
		delete(s.clients, client)
	}
}
