package webhook

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// maxWorkers is how many events a server works on at the same time.
	maxWorkers = 256
	// share is how many of them may be sent to one client.
	share = 8
)

// Bounds of how often a client that has its share is looked after again: between its jobs lie these times. A client
// with a hundred thousand events that wait costs ten small queries a second and is through them within three hours.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 100 * time.Millisecond
	// leastWait is for how long a job waits at least when its client has its share.
	leastWait = 100 * time.Millisecond
)

// shares sees to it that no client has more than its share of the senders of this server. It has an entry for each
// client that is being sent to or waits.
type shares struct {
	mu      sync.Mutex
	clients map[uuid.UUID]*usage
}

type usage struct {
	sending int
	// took is how long a try takes at present, a moving average.
	took time.Duration
	// moved is when a try began or ended the last time.
	moved time.Time
	// next is when the next job of this client that has to wait is to come again: one after the other.
	next time.Time
}

func newShares() *shares { return &shares{clients: map[uuid.UUID]*usage{}} }

// take begins a try, or says how long its job is to wait. Call done after the try.
func (s *shares) take(client uuid.UUID, now time.Time) (wait time.Duration, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.clients[client]
	if u == nil {
		u = &usage{}
		s.clients[client] = u
	}
	if u.sending >= share {
		soonest := now.Add(leastWait)
		if u.next.Before(soonest) {
			u.next = soonest
		}
		u.next = u.next.Add(min(max(u.took/share, now.Sub(u.moved)/share, leastPause), mostPause))
		return u.next.Sub(now) + rand.N(leastWait), nil
	}
	u.sending++
	u.moved = now
	return 0, func() { s.done(client, u, now) }
}

func (s *shares) done(client uuid.UUID, u *usage, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.sending--
	u.moved = time.Now()
	u.took += (u.moved.Sub(began) - u.took) / share
	if u.sending == 0 && u.next.Before(u.moved) {
		delete(s.clients, client)
	}
}
