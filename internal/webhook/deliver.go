package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
)

const (
	// maxHeld is how many events a server holds a lease of, and maxAhead how many of them of one client: what it sends and what
	// it sends next.
	maxHeld  = 1536
	maxAhead = 256
	// queueBatch is how many events a poll puts into the queue.
	queueBatch = 500
	// pollInterval is how often a server asks for events that are due. It polls because LISTEN does not work through
	// PgBouncer, and NOTIFY puts the commits of all writers in a row. A server spends at most a pollShare of its time with
	// asking, where a database takes long to answer.
	pollInterval = 100 * time.Millisecond
	pollShare    = 20
	// faultInterval is the pause after the database could not be asked.
	faultInterval = time.Second
	// waitTimeout is how long an event that was claimed waits for its turn.
	waitTimeout = time.Second
)

// limits of a delivery. Tests replace them: on a busy machine every limit runs out at some time.
type limits struct {
	claim time.Duration // of a claim, and of a statement that ends leases
	send  time.Duration // of all of a request: name resolution, connection, request and response
}

var defaultLimits = limits{claim: 4 * time.Second, send: 5 * time.Second}

// attempt is what an attempt may take with its statements.
func (l limits) attempt() time.Duration { return l.send + 9*time.Second }

// lease outlasts a claim, the wait for a turn and an attempt together, so that no other server sends the event before the outcome
// is recorded.
func (l limits) lease() time.Duration { return l.claim + waitTimeout + l.attempt() + time.Second }

// stop is what attempts in flight get when a server stops.
func (l limits) stop() time.Duration { return l.send + time.Second }

// schedule is how long after the previous attempt each attempt follows (decisions, section 5). After the last one the
// event has failed.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// jitter is by how much a delay may be longer, as a share of it.
const jitter = 0.2

// claimed is an event that this server leased, with where it goes.
type claimed struct {
	Event
	target target
	at     time.Time // by this server's clock
}

// claims is what a poll brought.
type claims struct {
	room   map[uuid.UUID]int // what it asked for
	events []claimed
	queued int // events that it put into the queue
	took   time.Duration
	err    error
}

// line is the events of one client that a server holds.
type line struct {
	waiting []claimed
	sending int
	// ahead is how many events the server wants to hold: as many as it sends at the same time, and twice as many each time
	// that the receiver was done with half of them quickly, so that one claim is enough for many.
	ahead     int
	more      bool      // the last claim brought as many as it asked for
	claimedAt time.Time // when it was
}

func (l *line) held() int { return len(l.waiting) + l.sending }

// lines are the events that a server holds, by client.
type lines map[uuid.UUID]*line

// room is for how many more events of each client there is room, and in all.
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
		case <-poll.C:
			if again = polling; again {
				break
			}
			polling = true
			room, total := held.room()
			go func() { polled <- w.poll(attempts, room, total) }()
		case found := <-polled:
			polling = false
			w.hold(attempts, held, found, ended)
			switch {
			case found.err != nil:
				poll.Reset(faultInterval)
			case again || found.queued == queueBatch:
				poll.Reset(0)
			default:
				poll.Reset(max(pollInterval, pollShare*found.took))
			}
			again = false
		}
	}
	w.leave(attempts, held, polling, polled, ended)
}

// hold takes what a poll brought, and forgets the lines that have ended.
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

// dispatch sends what waits, as many at the same time as the client's registration says. What has waited too long goes back
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

// leave ends the leases of what waits, and waits for the attempts in flight.
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

// release ends the leases of events. Where that fails they end by themselves.
func (w *Webhooks) release(ctx context.Context, events []claimed) {
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.limits.claim)
	defer cancel()
	ids := postgres.Map(events, func(event claimed) uuid.UUID { return event.ID })
	if err := w.queries.Release(ctx, ids); err != nil {
		w.logger.Error("leases of webhook events could not be ended", "cause", err)
	}
}

// poll puts new events into the queue, unless another server does so just now, and leases up to limit that are due.
func (w *Webhooks) poll(ctx context.Context, room map[uuid.UUID]int, limit int) (found claims) {
	ctx, cancel := context.WithTimeout(ctx, w.limits.claim)
	defer cancel()
	began := time.Now()
	found.room = room
	if found.queued, found.err = w.queue(ctx, queueBatch); found.err == nil {
		found.events, found.err = w.claim(ctx, room, limit)
	}
	if found.err != nil {
		w.logger.Error("webhook events that are due could not be read", "cause", found.err)
	}
	found.took = time.Since(began)
	return found
}

// deliver makes the attempt of an event that this server leased. If its outcome cannot be recorded, the attempt is made
// again when the lease is over.
func (w *Webhooks) deliver(ctx context.Context, event claimed) {
	limited, cancel := context.WithTimeout(ctx, w.limits.attempt())
	defer cancel()
	if err := w.attempt(limited, event); err != nil && ctx.Err() == nil {
		w.logger.Error("an attempt to deliver an event was not completed",
			"client_id", event.ClientID, "event_id", event.ID, "cause", err)
	}
}

func (w *Webhooks) attempt(ctx context.Context, event claimed) error {
	target := event.target
	if target.URL == "" {
		return w.giveUp(ctx, event.Event, target)
	}
	target.now = target.now.Add(time.Since(event.at))
	attempt, retryAfter, err := w.send(ctx, event.Event, target)
	if errors.Is(err, errNoSecret) { // another server may have the key, or this one later
		w.logger.Error("a webhook cannot be signed", "client_id", event.ClientID, "cause", err)
		attempt = Attempt{At: target.now, Fault: "it cannot be signed"}
	} else if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // we broke it off, which says nothing about the receiver
	}
	return w.record(ctx, event.Event, target, attempt, retryAfter)
}

// record stores an attempt and what becomes of its event.
func (w *Webhooks) record(
	ctx context.Context, event Event, target target, attempt Attempt, retryAfter time.Duration,
) error {
	state, delay := after(event.AttemptCount-event.attemptsBefore+1, attempt, retryAfter)
	if attempt.Status == http.StatusGone {
		stopped, err := w.stop(ctx, event, target)
		if err != nil {
			return err
		}
		if stopped {
			w.logger.Warn("a webhook was stopped: its receiver answered 410", "client_id", event.ClientID)
		}
	}
	held, err := w.recordAttempt(ctx, event, attempt, state, delay)
	if errors.Is(err, ErrNoEvent) {
		return nil // swept meanwhile
	}
	if err != nil {
		return err
	}
	failed := state == Failed && held
	w.count(target.clientName, func(s *Stats) {
		if attempt.Success() {
			s.Delivered++
		} else {
			s.FailedAttempts++
		}
		if failed {
			s.Failed++
		}
	})
	if failed {
		w.logger.Warn("an event could not be delivered",
			"client_id", event.ClientID, "event_id", event.ID, "status", attempt.Status, "fault", attempt.Fault)
	}
	return nil
}

// after decides what becomes of an event after its nth attempt since it was written or replayed.
func after(n int, attempt Attempt, retryAfter time.Duration) (state State, delay time.Duration) {
	switch {
	case attempt.Success():
		return Delivered, 0
	case attempt.Status == http.StatusGone, n >= len(schedule):
		return Failed, 0
	}
	delay = schedule[n]
	delay += time.Duration(rand.Float64() * jitter * float64(delay))
	return Pending, max(delay, retryAfter)
}
