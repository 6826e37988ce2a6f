package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// claimed is an event that this server leased, with its target.
type claimed struct {
	Event
	target target
	at     time.Time // of the claim, by this server's clock

	attempt    Attempt // when it was made
	retryAfter time.Duration
}

// claims is what a claim has found.
type claims struct {
	events  []*claimed
	due     bool  // events are due, of which another server may have leased some meanwhile
	changes bool  // there are changes whose window is over
	err     error // of a part of it
}

// The kinds of work: an event that is ready, a retry whose time has come, and a change whose window is over.
const (
	anEvent = "event"
	aRetry  = "retry"
	aChange = "change"
)

// look returns events that are ready, retries whose time has come, and changes whose window is over, up to so many of each on each node, in
// the order in which they became due.
func (w *Webhooks) look(ctx context.Context, room map[uuid.UUID]int, events, changes int) ([]webhookdb.LookForWorkRow, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limits.Claim)
	defer cancel()
	roomJSON, err := json.Marshal(room)
	if err != nil {
		return nil, err
	}
	return w.queries.LookForWork(ctx, webhookdb.LookForWorkParams{
		WindowLength: w.window, Room: roomJSON, MaxEvents: int32(events), MaxChanges: int32(changes),
	})
}

// inParts calls act with the users and the events of each part of some work, of several parts at the same time. A part is some users' rows
// that one statement can change on one node of a cluster; one PostgreSQL is one part. It returns an error of one of them.
func inParts(rows []webhookdb.LookForWorkRow, act func(users, events []uuid.UUID) error) error {
	const most = 4
	users, events := map[int64][]uuid.UUID{}, map[int64][]uuid.UUID{}
	for _, row := range rows {
		users[row.Part], events[row.Part] = append(users[row.Part], row.UserID), append(events[row.Part], row.EventID)
	}
	var all errgroup.Group
	all.SetLimit(most)
	for part := range users {
		all.Go(func() error { return work.Try(func() error { return act(users[part], events[part]) }) })
	}
	return all.Wait()
}

// claim makes retries ready whose time has come, and leases up to limit events that are ready. room bounds the events of each client; of a
// client that is not in it, as many are leased as are sent at the same time.
func (w *Webhooks) claim(ctx context.Context, room map[uuid.UUID]int, limit int) (found claims) {
	rows, err := w.look(ctx, room, limit, 1)
	retries := slices.DeleteFunc(slices.Clone(rows), func(row webhookdb.LookForWorkRow) bool { return row.Kind != aRetry })
	if len(retries) > 0 {
		found.err = inParts(retries, func(users, events []uuid.UUID) error {
			return w.queries.ReadyWebhookEvents(ctx, webhookdb.ReadyWebhookEventsParams{UserIds: users, EventIds: events})
		})
		rows, err = w.look(ctx, room, limit, 1)
	}
	if err != nil {
		found.err = errors.Join(found.err, err)
		return found
	}
	left := maps.Clone(room) // no node knows what another one has found
	if left == nil {
		left = map[uuid.UUID]int{}
	}
	var fitting []webhookdb.LookForWorkRow
	for _, row := range rows {
		found.changes = found.changes || row.Kind == aChange
		found.due = found.due || row.Kind != aChange
		if row.Kind != anEvent {
			continue
		}
		fits, known := left[row.ClientID]
		if !known {
			fits = int(row.Share)
		}
		if left[row.ClientID] = max(0, fits-1); fits > 0 && len(fitting) < limit {
			fitting = append(fitting, row)
		}
	}
	var mu sync.Mutex
	err = inParts(fitting, func(users, events []uuid.UUID) error {
		leased, err := w.queries.ClaimWebhookEvents(ctx, webhookdb.ClaimWebhookEventsParams{UserIds: users, EventIds: events, Lease: w.limits.lease()})
		at := time.Now()
		mu.Lock()
		defer mu.Unlock()
		for _, row := range leased {
			found.events = append(found.events, &claimed{Event: fromRow(row), at: at})
		}
		return err
	})
	found.err = errors.Join(found.err, err)
	if len(found.events) == 0 {
		return found
	}
	clients := map[uuid.UUID]bool{}
	for _, event := range found.events {
		clients[event.ClientID] = true
	}
	targets, err := w.targets(ctx, slices.Collect(maps.Keys(clients))...)
	if err != nil { // they are due again when their leases end
		found.events, found.err = nil, err
		return found
	}
	for _, event := range found.events {
		event.target = targets[event.ClientID]
	}
	slices.SortFunc(found.events, func(a, b *claimed) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found
}

// release ends the leases of events.
func (w *Webhooks) release(ctx context.Context, events []*claimed) error {
	return w.queries.Release(ctx, webhookdb.ReleaseParams{
		UserIds:  postgres.Map(events, func(event *claimed) uuid.UUID { return event.userID }),
		EventIds: postgres.Map(events, func(event *claimed) uuid.UUID { return event.ID }),
	})
}
