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
	// of all writers. If the database is slow, a server spends at most one part in pollShare of its time on polls, but waits no longer than
	// maxPause: a poll may have taken long because the database was away.
	pollInterval = 100 * time.Millisecond
	maxInterval  = time.Second
	pollShare    = 20
	maxPause     = 5 * time.Second
	// faultInterval is the pause after a poll that failed.
	faultInterval = time.Second
	// waitTimeout is how long a claimed event may wait before it is sent.
	waitTimeout = time.Second
)

// limits of a delivery.
type limits work.Limits

// attempt bounds an attempt with its statements.
func (l limits) attempt() time.Duration { return l.Webhook + 9*time.Second }

// lease is longer than a claim, the wait after it and an attempt together, so that no other server sends the event before the
// outcome is recorded.
func (l limits) lease() time.Duration { return l.Claim + waitTimeout + l.attempt() + time.Second }

// stop is the time that attempts in flight get when a server stops.
func (l limits) stop() time.Duration { return l.Webhook + time.Second }

// line holds the leased events of one client.
type line struct {
	waiting []claimed
	sending int
	// ahead is the number of events that the server wants to hold. It starts with the number that it sends at the same time, and
	// doubles each time that the receiver took half of them quickly, so that fewer claims are needed.
	ahead     int
	more      bool      // the last claim returned as many events as it asked for
	claimedAt time.Time // the time of that claim
}

func (l *line) held() int { return len(l.waiting) + l.sending }

// lines hold the leased events of a server, by client.
type lines map[uuid.UUID]*line

// room returns how many more events fit, of each client and in total.
func (s lines) room() (room map[uuid.UUID]int, total int) {
	room, total = map[uuid.UUID]int{}, maxHeld
	for client, l := range s {
		room[client] = max(0, l.ahead-l.held())
		total -= l.held()
	}
	return room, total
}

// deliverDue sends events that are due until ctx ends, then waits for the attempts in flight.
func (w *Webhooks) deliverDue(ctx context.Context) {
	attempts, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	context.AfterFunc(ctx, func() { time.AfterFunc(w.limits.stop(), breakOff) })

	held := lines{}
	ended := make(chan uuid.UUID) // the client of an attempt
	polled := make(chan claims)
	polling, again := false, false // again: a poll was due while one was under way
	var notBefore time.Time        // the next poll
	woken := false                 // while a poll was under way
	interval := w.maxInterval      // between polls without a signal
	poll := time.NewTimer(0)
	defer poll.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case client := <-ended:
			l := held[client]
			l.sending--
			w.dispatch(attempts, l, ended)
			if l.more && l.held() <= l.ahead/2 {
				l.more = false
				if time.Since(l.claimedAt) < waitTimeout/2 {
					l.ahead = min(2*l.ahead, maxAhead)
				}
				poll.Reset(0)
			}
		case <-w.wake:
			if woken = polling; !woken {
				poll.Reset(time.Until(notBefore))
			}
		case <-poll.C:
			if again = polling; again {
				break
			}
			polling, notBefore = true, time.Now()
			room, total := held.room()
			go func() { polled <- w.poll(attempts, room, total) }()
		case found := <-polled:
			polling = false
			w.hold(attempts, held, found, ended)
			notBefore = notBefore.Add(untilNextPoll(found.took))
			switch {
			case found.err != nil:
				poll.Reset(faultInterval)
			case again:
				poll.Reset(0)
			case !found.due && !woken:
				interval = min(2*interval, w.maxInterval)
				poll.Reset(max(interval, time.Until(notBefore)))
			default:
				interval = pollInterval
				poll.Reset(time.Until(notBefore))
			}
			again, woken = false, false
		}
	}
	w.leave(attempts, held, polling, polled, ended)
}

// untilNextPoll is the least time from the beginning of a poll that took so long to that of the next.
func untilNextPoll(took time.Duration) time.Duration {
	return max(pollInterval, took+min((pollShare-1)*took, maxPause))
}

// hold adds the events of a poll to the lines, and removes lines that have been empty for a while.
func (w *Webhooks) hold(ctx context.Context, held lines, found claims, ended chan<- uuid.UUID) {
	now := time.Now()
	brought := map[uuid.UUID]int{}
	for _, event := range found.events {
		if held[event.ClientID] == nil {
			held[event.ClientID] = &line{ahead: event.target.parallel}
		}
		held[event.ClientID].waiting = append(held[event.ClientID].waiting, event)
		brought[event.ClientID]++
	}
	for client, l := range held {
		switch n := brought[client]; {
		case n > 0:
			asked, known := found.room[client]
			l.claimedAt, l.more = now, n >= asked && (known || n >= l.ahead)
			w.dispatch(ctx, l, ended)
		case l.held() == 0 && now.Sub(l.claimedAt) > 2*waitTimeout:
			delete(held, client)
		}
	}
}

// dispatch sends waiting events, as many at the same time as the client's registration says. Events that waited too long go back
// to the queue: the receiver has become slow.
func (w *Webhooks) dispatch(ctx context.Context, l *line, ended chan<- uuid.UUID) {
	var late []claimed
	for len(l.waiting) > 0 && l.sending < l.waiting[0].target.parallel {
		event := l.waiting[0]
		l.waiting = l.waiting[1:]
		if time.Since(event.at) > waitTimeout {
			late = append(late, event)
			continue
		}
		l.sending++
		go func() {
			defer func() { ended <- event.ClientID }()
			w.deliver(ctx, event)
		}()
	}
	if len(late) > 0 {
		l.ahead = late[0].target.parallel
		go w.release(ctx, late)
	}
}

// leave ends the leases of waiting events, and waits for the attempts in flight.
func (w *Webhooks) leave(ctx context.Context, held lines, polling bool, polled <-chan claims, ended <-chan uuid.UUID) {
	var waiting []claimed
	if polling {
		waiting = (<-polled).events
	}
	sending := 0
	for _, l := range held {
		waiting = append(waiting, l.waiting...)
		sending += l.sending
	}
	w.release(ctx, waiting)
	for range sending {
		<-ended
	}
}

// poll leases up to limit events that are due. It looks first. A look locks and writes nothing. If it finds no event, the poll ends.
func (w *Webhooks) poll(ctx context.Context, room map[uuid.UUID]int, limit int) (found claims) {
	ctx, cancel := context.WithTimeout(ctx, w.limits.Claim)
	defer cancel()
	began := time.Now()
	if err := work.Try(func() error { found = w.claim(ctx, room, limit); return nil }); err != nil {
		found.err = err
	}
	if found.changes {
		signal(w.changed)
	}
	if found.err != nil {
		w.logger.Error("webhook events that are due could not be read", "cause", found.err)
	}
	found.took = time.Since(began)
	return found
}

// deliver makes the attempt of an event that this server leased. If its outcome cannot be recorded, another attempt follows when
// the lease ends.
func (w *Webhooks) deliver(ctx context.Context, event claimed) {
	limited, cancel := context.WithTimeout(ctx, w.limits.attempt())
	defer cancel()
	err := work.Try(func() error { return w.attempt(limited, event) })
	if err != nil && ctx.Err() == nil {
		w.logger.Error("an attempt to deliver an event was not completed",
			"client_id", event.ClientID, "event_id", event.ID, "cause", err)
	}
}

func (w *Webhooks) attempt(ctx context.Context, event claimed) error {
	target := event.target
	if target.URL == "" || !target.StoppedAt.IsZero() {
		return w.giveUp(ctx, event.Event, target)
	}
	target.now = target.now.Add(time.Since(event.at))
	var attempt Attempt
	var retryAfter time.Duration
	err := work.Try(func() (err error) {
		attempt, retryAfter, err = w.send(ctx, event.Event, target)
		return err
	})
	switch panicked := new(work.Panic); {
	case errors.Is(err, errNoSecret): // another server may have the key, or this one later
		w.logger.Error("a webhook cannot be signed", "client_id", event.ClientID, "cause", err)
		attempt = Attempt{At: target.now, Fault: "it cannot be signed"}
	case errors.As(err, &panicked): // it fails, so that it is tried again later and not at once, for ever
		w.logger.Error("the delivery of a webhook panicked", "client_id", event.ClientID, "event_id", event.ID, "cause", err)
		attempt = Attempt{At: target.now, Fault: "an internal error"}
	case err != nil:
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // we canceled it, which says nothing about the receiver
	}
	return w.record(ctx, event.Event, target, attempt, retryAfter)
}
