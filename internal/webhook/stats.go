package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Stats is how the delivery to a client goes.
type Stats struct {
	Client  string        // its name; clients of one name are one
	Pending int64         // events in the database that are to be delivered
	Oldest  time.Duration // age of the oldest of them

	// Since this server started, and by it:
	Delivered   uint64 // events that their receiver took
	Failed      uint64 // events that were given up
	FailedTries uint64 // tries that failed
}

// Stats is how delivery goes, for the metrics: for each client that has events pending or had a try of this server, by
// name.
func (w *Webhooks) Stats(ctx context.Context) ([]Stats, error) {
	all := w.counts.copy()
	if err := w.store.pending(ctx, all); err != nil {
		return nil, fmt.Errorf("webhook statistics: %w", err)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Stats) int {
		if a.Client < b.Client {
			return -1
		}
		return 1
	}), nil
}

// counts is what this server did, by client name.
type counts struct {
	mu      sync.Mutex
	clients map[string]Stats
}

func newCounts() *counts { return &counts{clients: map[string]Stats{}} }

func (c *counts) change(client string, change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.clients[client]
	s.Client = client
	change(&s)
	c.clients[client] = s
}

func (c *counts) tried(client string, success bool) {
	c.change(client, func(s *Stats) {
		if success {
			s.Delivered++
		} else {
			s.FailedTries++
		}
	})
}

func (c *counts) failed(client string) { c.change(client, func(s *Stats) { s.Failed++ }) }

func (c *counts) copy() map[string]Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.clients)
}
