package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
)

// Stats describes the delivery to a client.
type Stats struct {
	Client  string        // its name; clients of one name are one
	Pending int64         // events in the database that are to be delivered
	Oldest  time.Duration // age of the oldest of them

	// Counted by this server since it started:
	Delivered      uint64 // events that their receiver accepted
	Failed         uint64 // events that were given up
	FailedAttempts uint64
}

// count changes this server's counts of a client.
func (w *Webhooks) count(client string, change func(*Stats)) {
	w.statsMu.Lock()
	defer w.statsMu.Unlock()
	s := w.stats[client]
	s.Client = client
	change(&s)
	w.stats[client] = s
}

// Stats describes delivery for the metrics, sorted by name: for each client that has a webhook or pending events, or that this server sent
// to. Counts begin at 0: otherwise the first failure would not be an increase.
func (w *Webhooks) Stats(ctx context.Context) ([]Stats, error) {
	w.statsMu.Lock()
	all := maps.Clone(w.stats)
	w.statsMu.Unlock()
	receivers, err := w.queries.ListReceivers(ctx)
	if err != nil {
		return nil, postgres.Wrap("webhook statistics", err)
	}
	for _, name := range receivers {
		stats := all[name]
		stats.Client = name
		all[name] = stats
	}
	pending, err := w.queries.CountPendingByClient(ctx)
	for _, row := range pending {
		stats := all[row.Name]
		stats.Client = row.Name
		stats.Pending, stats.Oldest = row.Pending, max(0, time.Duration(row.OldestSeconds*float64(time.Second)))
		all[row.Name] = stats
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b Stats) int { return strings.Compare(a.Client, b.Client) })
	return sorted, postgres.Wrap("webhook statistics", err)
}

// Queue describes the delivery to all clients by all servers.
type Queue struct {
	Waiting int64         // events that are to be delivered
	Due     int64         // those of them that are to be sent now, and that no server is sending
	Oldest  time.Duration // age of the oldest that waits; 0 if none waits
	Failed  int64         // given up within the last 24 hours; 10,000 stands for that many or more
	Ages    []Age         // of those that wait, youngest first
}

// Age counts the events that have waited for up to UpTo, and longer than those of the age before. An UpTo of 0 is any time.
type Age struct {
	UpTo  time.Duration
	Count int64
}

// Queue asks the database for the state of delivery.
func (w *Webhooks) Queue(ctx context.Context) (Queue, error) {
	row, err := w.queries.Backlog(ctx)
	if err != nil {
		return Queue{}, fmt.Errorf("webhook queue: %w", err)
	}
	failed, err := w.queries.CountFailedOfDay(ctx)
	q := Queue{
		Waiting: row.Waiting, Due: row.Due, Failed: failed, Oldest: time.Duration(row.OldestSeconds * float64(time.Second)),
	}
	younger := int64(0)
	for _, age := range []Age{
		{time.Minute, row.Under1m}, {5 * time.Minute, row.Under5m}, {time.Hour, row.Under1h}, {6 * time.Hour, row.Under6h},
		{24 * time.Hour, row.Under24h}, {0, q.Waiting},
	} {
		q.Ages = append(q.Ages, Age{age.UpTo, age.Count - younger})
		younger = age.Count
	}
	return q, postgres.Wrap("webhook queue", err)
}

// CountBound is the number up to which [Webhooks.Waiting] counts.
const CountBound = 10_000

// Waiting counts a client's events that wait to be sent, and those that failed: each up to [CountBound], and one more if there are
// more.
func (w *Webhooks) Waiting(ctx context.Context, clientID uuid.UUID) (waiting, failed int, err error) {
	pending, err := w.queries.CountPendingWebhookEvents(ctx, webhookdb.CountPendingWebhookEventsParams{ClientID: clientID, AtMost: CountBound + 1})
	if err != nil {
		return 0, 0, ofClient(clientID, err)
	}
	given, err := w.queries.CountFailedWebhookEvents(ctx, webhookdb.CountFailedWebhookEventsParams{ClientID: clientID, AtMost: CountBound + 1})
	return int(pending), int(given), ofClient(clientID, err)
}
