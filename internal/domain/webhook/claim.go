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
	"connect-svc/internal/foundation/work"
)

// claimed is an event that this server leased, with its target.
type claimed struct {
	Event
	target target
	at     time.Time // of the claim, by this server's clock
	part   int64     // where the event is, see look
}

// claims is what a claim has found.
type claims struct {
	room    map[uuid.UUID]int // that it was for
	events  []claimed
	due     bool // events are due, of which another server may have leased some meanwhile
	changes bool // there are changes whose window is over
	took    time.Duration
	err     error // of a part of it
}

// claim makes retries ready whose time has come, and leases up to limit events that are ready. room bounds the events of each client; of a client that is not in it, as many are
// leased as are sent at the same time.
func (w *Webhooks) claim(ctx context.Context, room map[uuid.UUID]int, limit int) (found claims) {
	found.room = room
	work, err := w.look(ctx, room, limit, 1)
	if err == nil {
		var some bool
		if some, found.err = w.ready(ctx, work); some {
			work, err = w.look(ctx, room, limit, 1)
		}
	}
	if err != nil {
		found.err = errors.Join(found.err, err)
		return found
	}
	left := maps.Clone(room) // no node knows what another one has found
	if left == nil {
		left = map[uuid.UUID]int{}
	}
	parts := map[int64]webhookdb.ClaimWebhookEventsParams{}
	for _, row := range work {
		found.changes = found.changes || row.Kind == aChange
		found.due = found.due || row.Kind != aChange
		if row.Kind != anEvent {
			continue
		}
		fits, known := left[row.ClientID]
		if !known {
			fits = int(row.Share)
		}
		if left[row.ClientID] = max(0, fits-1); fits == 0 || limit == 0 {
			continue
		}
		limit--
		part := parts[row.Part]
		part.UserIds, part.EventIds = append(part.UserIds, row.UserID), append(part.EventIds, row.EventID)
		parts[row.Part] = part
	}
	var mu sync.Mutex
	failed := atOnce(slices.Collect(maps.Keys(parts)), func(part int64) error {
		params := parts[part]
		params.Lease = w.limits.lease()
		rows, err := w.queries.ClaimWebhookEvents(ctx, params)
		at := time.Now()
		mu.Lock()
		defer mu.Unlock()
		for _, row := range rows {
			found.events = append(found.events, claimed{Event: fromRow(row), at: at, part: part})
		}
		return err
	})
	found.err = errors.Join(found.err, errors.Join(slices.Collect(maps.Values(failed))...))
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
	for i := range found.events {
		found.events[i].target = targets[found.events[i].ClientID]
	}
	slices.SortFunc(found.events, func(a, b claimed) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found
}

// ready marks the retries among some work as ready, so that a look finds them. It returns whether there were some.
func (w *Webhooks) ready(ctx context.Context, work []webhookdb.LookForWorkRow) (some bool, err error) {
	parts := map[int64]webhookdb.ReadyWebhookEventsParams{}
	for _, row := range work {
		if row.Kind == aRetry {
			part := parts[row.Part]
			part.UserIds, part.EventIds = append(part.UserIds, row.UserID), append(part.EventIds, row.EventID)
			parts[row.Part] = part
		}
	}
	failed := atOnce(slices.Collect(maps.Keys(parts)), func(part int64) error { return w.queries.ReadyWebhookEvents(ctx, parts[part]) })
	return len(parts) > 0, errors.Join(slices.Collect(maps.Values(failed))...)
}

// release ends the leases of events. If that fails they end by themselves.
func (w *Webhooks) release(ctx context.Context, events []claimed) {
	ctx, cancel := context.WithTimeout(ctx, w.limits.Claim)
	defer cancel()
	parts := map[int64]webhookdb.ReleaseParams{}
	for _, event := range events {
		part := parts[event.part]
		part.UserIds, part.EventIds = append(part.UserIds, event.userID), append(part.EventIds, event.ID)
		parts[event.part] = part
	}
	for _, err := range atOnce(slices.Collect(maps.Keys(parts)), func(part int64) error { return w.queries.Release(ctx, parts[part]) }) {
		w.logger.Error("leases of webhook events could not be ended", "cause", err)
	}
}

// places are ids on the nodes of the database, of which one PostgreSQL has one.
type places struct {
	mu    sync.Mutex
	ids   []uuid.UUID
	asked time.Time // for these ids
}

// placesAge is how long a server uses the same list of places, and does without a node that did not answer.
const placesAge = 10 * time.Second

// The kinds of work: an event that is ready, a retry whose time has come, and a change whose window is over.
const (
	anEvent = "event"
	aRetry  = "retry"
	aChange = "change"
)

// look asks each node for events that are ready, for retries whose time has come, and for changes whose window is over, up to so many of each, and returns them in the order in
// which they became due. A part is some users' rows that one statement can change on one node. The others' work goes on while a node does
// not answer. It is an error if none answers.
func (w *Webhooks) look(ctx context.Context, room map[uuid.UUID]int, events, changes int) ([]webhookdb.LookForWorkRow, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limits.Claim/2) // the rest is for the nodes that answer
	defer cancel()
	asked, err := w.askable(ctx)
	if err != nil {
		return nil, err
	}
	roomJSON, err := json.Marshal(room)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var work []webhookdb.LookForWorkRow
	failed := atOnce(asked, func(place uuid.UUID) error {
		rows, err := w.queries.LookForWork(ctx, webhookdb.LookForWorkParams{
			Place: place, WindowLength: w.window, Room: roomJSON, MaxEvents: int32(events), MaxChanges: int32(changes),
		})
		mu.Lock()
		defer mu.Unlock()
		work = append(work, rows...)
		return err
	})
	w.places.mu.Lock()
	defer w.places.mu.Unlock()
	if len(failed) == len(asked) {
		w.places.asked = time.Time{}
		return nil, errors.Join(slices.Collect(maps.Values(failed))...)
	}
	for place, err := range failed {
		w.places.ids = slices.DeleteFunc(slices.Clone(w.places.ids), func(id uuid.UUID) bool { return id == place })
		w.logger.Error("a node of the database could not be asked for webhooks", "cause", err)
	}
	slices.SortStableFunc(work, func(a, b webhookdb.LookForWorkRow) int { return a.DueAt.Compare(b.DueAt) })
	return work, nil
}

// askable returns the places of the nodes that are to be asked.
func (w *Webhooks) askable(ctx context.Context) (ids []uuid.UUID, err error) {
	w.places.mu.Lock()
	defer w.places.mu.Unlock()
	if time.Since(w.places.asked) > placesAge {
		if ids, err = w.queries.ListPlaces(ctx); err != nil {
			return nil, err
		}
		w.places.ids, w.places.asked = ids, time.Now()
	}
	return w.places.ids, nil
}

// atOnce calls act for several keys at the same time, and returns the errors.
func atOnce[K comparable](keys []K, act func(K) error) (failed map[K]error) {
	const most = 4
	failed = map[K]error{}
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(most)
	for _, key := range keys {
		all.Go(func() error {
			if err := work.Try(func() error { return act(key) }); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[key] = err
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are in failed
	return failed
}
