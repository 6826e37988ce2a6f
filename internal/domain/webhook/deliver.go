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

const (
	// maxHeld bounds the events that a server has leased: those that it sends and those that it sends next. maxAhead bounds those of
	// one client.
	maxHeld  = 1536
	maxAhead = 256
	// pollInterval is how often a server polls for work while there is some. Without work the interval doubles up to maxInterval, and
	// [Webhooks.Wake] ends it. The server polls because LISTEN does not work through PgBouncer, and NOTIFY serializes the commits
	// of all writers.
	pollInterval = 100 * time.Millisecond
	maxInterval  = time.Second
)

func (w *Webhooks) leases() *work.Leases[uuid.UUID, *claimed] {
	attempt := w.limits.Webhook + time.Second
	return &work.Leases[uuid.UUID, *claimed]{
		Name: "a webhook event", Logger: w.logger, Wake: w.wake,
		Line:  func(event *claimed) (clientID uuid.UUID, parallel int) { return event.ClientID, event.target.parallel },
		Claim: w.claim, Attempt: w.attempt, Record: w.settle, Release: w.release,
		Most: maxHeld, Ahead: maxAhead, Pace: pollInterval, Idle: w.maxInterval,
		ClaimLimit: w.limits.Claim, AttemptLimit: attempt, RecordLimit: 2 * w.limits.Claim, StopLimit: attempt,
	}
}

// claimed is an event that this server leased, with its target.
type claimed struct {
	Event
	target target
	at     time.Time // of the claim, by this server's clock

	attempt    Attempt // when it was made
	retryAfter time.Duration
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
// client that is not in it, as many are leased as are sent at the same time. It looks first, which locks and writes nothing. due: events are
// due, of which another server may have leased some meanwhile. The error may be of a part of it.
func (w *Webhooks) claim(ctx context.Context, room map[uuid.UUID]int, limit int) (leased []*claimed, due bool, _ error) {
	rows, err := w.look(ctx, room, limit, 1)
	retries := slices.DeleteFunc(slices.Clone(rows), func(row webhookdb.LookForWorkRow) bool { return row.Kind != aRetry })
	var failure error
	if len(retries) > 0 {
		failure = inParts(retries, func(users, events []uuid.UUID) error {
			return w.queries.ReadyWebhookEvents(ctx, webhookdb.ReadyWebhookEventsParams{UserIds: users, EventIds: events})
		})
		rows, err = w.look(ctx, room, limit, 1)
	}
	if err != nil {
		return nil, false, errors.Join(failure, err)
	}
	left := map[uuid.UUID]int{} // no node knows what another one has found
	maps.Copy(left, room)
	var fitting []webhookdb.LookForWorkRow
	for _, row := range rows {
		if row.Kind == aChange {
			w.changed.Send()
			continue
		}
		if due = true; row.Kind != anEvent {
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
	clients := map[uuid.UUID]bool{}
	err = inParts(fitting, func(users, events []uuid.UUID) error {
		rows, err := w.queries.ClaimWebhookEvents(ctx, webhookdb.ClaimWebhookEventsParams{UserIds: users, EventIds: events, Lease: w.leases().Lease()})
		at := time.Now()
		mu.Lock()
		defer mu.Unlock()
		for _, row := range rows {
			leased, clients[row.ClientID] = append(leased, &claimed{Event: fromRow(row), at: at}), true
		}
		return err
	})
	failure = errors.Join(failure, err)
	if len(leased) == 0 {
		return nil, due, failure
	}
	targets, err := w.targets(ctx, slices.Collect(maps.Keys(clients))...)
	if err != nil { // they are due again when their leases end
		return nil, due, err
	}
	for _, event := range leased {
		event.target = targets[event.ClientID]
	}
	slices.SortFunc(leased, func(a, b *claimed) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return leased, due, failure
}

// release ends the leases of events.
func (w *Webhooks) release(ctx context.Context, events []*claimed) error {
	return w.queries.Release(ctx, webhookdb.ReleaseParams{
		UserIds:  postgres.Map(events, func(event *claimed) uuid.UUID { return event.userID }),
		EventIds: postgres.Map(events, func(event *claimed) uuid.UUID { return event.ID }),
		Leases:   postgres.Map(events, func(event *claimed) time.Time { return postgres.Value(event.lease) }),
	})
}

// sends reports whether the endpoint of the event is there and was not stopped, and its client is active.
func (c *claimed) sends() bool {
	return c.target.URL != "" && c.target.StoppedAt.IsZero() && c.target.ClientStatus == "active"
}

// attempt sends an event that this server leased.
func (w *Webhooks) attempt(ctx context.Context, event *claimed, _ func()) error {
	if !event.sends() {
		return nil
	}
	target := event.target
	target.now = target.now.Add(time.Since(event.at))
	event.attempt = Attempt{At: target.now}
	attempt, retryAfter, err := w.send(ctx, event.Event, target)
	if err == nil {
		event.attempt, event.retryAfter = attempt, retryAfter
	}
	return err
}

// settle records the outcome of an attempt. An attempt that this server broke off says nothing about the receiver, and is not recorded.
func (w *Webhooks) settle(ctx context.Context, event *claimed, err, over error) error {
	switch panicked := new(work.Panic); {
	case !event.sends():
		return ofEvent(event.ID, w.giveUp(ctx, event.Event, event.target))
	case over != nil && !event.attempt.Success():
		return ofEvent(event.ID, over)
	case errors.Is(err, errNoSecret): // another server may have the key, or this one later
		w.logger.Error("a webhook cannot be signed", "client_id", event.ClientID, "cause", err)
		event.attempt.Fault = "it cannot be signed"
	case errors.As(err, &panicked): // it fails, so that it is tried again later and not at once, for ever
		w.logger.Error("the delivery of a webhook panicked", "client_id", event.ClientID, "event_id", event.ID, "cause", err)
		event.attempt.Fault = "an internal error"
	case err != nil:
		return ofEvent(event.ID, err)
	}
	return ofEvent(event.ID, w.record(ctx, event.Event, event.target, event.attempt, event.retryAfter))
}
