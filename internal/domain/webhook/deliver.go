package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

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

// limits of a delivery.
type limits work.Limits

// attempt bounds an attempt, and is the time that attempts in flight get when a server stops.
func (l limits) attempt() time.Duration { return l.Webhook + time.Second }

// record bounds recording the outcome of an attempt.
func (l limits) record() time.Duration { return 2 * l.Claim }

// lease is longer than a claim, the wait after it, an attempt and its record together, so that no other server sends the event before the
// outcome is recorded.
func (l limits) lease() time.Duration {
	return l.Claim + work.WaitAhead + l.attempt() + l.record() + time.Second
}

func (w *Webhooks) leases() *work.Leases[uuid.UUID, *claimed] {
	return &work.Leases[uuid.UUID, *claimed]{
		Name: "a webhook event", Logger: w.logger, Wake: w.wake,
		Claim: func(ctx context.Context, room map[uuid.UUID]int, limit int) ([]*claimed, bool, error) {
			found := w.poll(ctx, room, limit)
			return found.events, found.due, found.err
		},
		Line:    func(event *claimed) (clientID uuid.UUID, parallel int) { return event.ClientID, event.target.parallel },
		Attempt: w.attempt, Record: w.settle, Release: w.release,
		Most: maxHeld, Ahead: maxAhead, Pace: pollInterval, Idle: w.maxInterval,
		ClaimLimit: w.limits.Claim, AttemptLimit: w.limits.attempt(), RecordLimit: w.limits.record(), StopLimit: w.limits.attempt(),
	}
}

// poll leases up to limit events that are due. It looks first. A look locks and writes nothing. If it finds no event, the poll ends.
func (w *Webhooks) poll(ctx context.Context, room map[uuid.UUID]int, limit int) claims {
	found := w.claim(ctx, room, limit)
	if found.changes {
		w.changed.Send()
	}
	if found.err != nil {
		w.logger.Error("webhook events that are due could not be read", "cause", found.err)
	}
	return found
}

// sends reports whether the endpoint of the event is there and was not stopped.
func (c *claimed) sends() bool { return c.target.URL != "" && c.target.StoppedAt.IsZero() }

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
