package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
)

const (
	// maxInFlight is how many attempts a server makes at the same time, and clientShare how many of them to one client.
	maxInFlight = 1536
	clientShare = 8
)

const (
	// pollInterval is how often a server asks for events that are due. It polls because LISTEN does not work through
	// PgBouncer, and NOTIFY puts the commits of all writers in a row.
	pollInterval = 100 * time.Millisecond
	// faultInterval is the pause after the database could not be asked.
	faultInterval = time.Second
	// claimTimeout bounds a claim, and attemptTimeout an attempt with its statements. A lease outlasts both together, so
	// that no other server sends the event before the outcome is recorded.
	claimTimeout   = 4 * time.Second
	attemptTimeout = 15 * time.Second
	leaseTime      = 20 * time.Second
	// stopTimeout is what attempts in flight get when a server stops.
	stopTimeout = sendTimeout + time.Second
)

// schedule is how long after the previous attempt each attempt follows (decisions, section 5). After the last one the
// event has failed.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// jitter is by how much a delay may be longer, as a share of it.
const jitter = 0.2

// deliverDue sends events that are due until ctx ends, then waits for the attempts in flight.
func (w *Webhooks) deliverDue(ctx context.Context) {
	attempts, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, breakOff) })

	inFlight, total := map[uuid.UUID]int{}, 0 // attempts, by client and in all
	ended := make(chan uuid.UUID)             // the client of an attempt
	end := func(client uuid.UUID) {
		total--
		if inFlight[client]--; inFlight[client] == 0 {
			delete(inFlight, client)
		}
	}
	poll := time.NewTimer(0)
	defer poll.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case client := <-ended:
			if inFlight[client] == clientShare {
				poll.Reset(0) // more of its events may be due
			}
			end(client)
		case <-poll.C:
			poll.Reset(pollInterval)
			events, err := w.claim(attempts, inFlight, maxInFlight-total)
			if err != nil {
				poll.Reset(faultInterval)
			}
			for _, event := range events {
				total++
				inFlight[event.ClientID]++
				go func() {
					defer func() { ended <- event.ClientID }()
					w.deliver(attempts, event)
				}()
			}
		}
	}
	for total > 0 {
		end(<-ended)
	}
}

// claim leases up to limit events that are due.
func (w *Webhooks) claim(ctx context.Context, inFlight map[uuid.UUID]int, limit int) ([]Event, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	events, err := w.store.claim(ctx, inFlight, limit)
	if err != nil {
		w.logger.Error("webhook events that are due could not be read", "cause", err)
	}
	return events, err
}

// deliver makes the attempt of an event that this server leased. If its outcome cannot be recorded, the attempt is made
// again when the lease is over.
func (w *Webhooks) deliver(ctx context.Context, event Event) {
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := w.attempt(limited, event); err != nil && ctx.Err() == nil {
		w.logger.Error("an attempt to deliver an event was not completed",
			"client_id", event.ClientID, "event_id", event.ID, "cause", err)
	}
}

func (w *Webhooks) attempt(ctx context.Context, event Event) error {
	target, err := w.store.target(ctx, event.ClientID)
	if errors.Is(err, ErrNoEndpoint) || err == nil && !target.StoppedAt.IsZero() {
		return w.giveUp(ctx, event)
	}
	if err != nil {
		return err
	}
	attempt, retryAfter, err := w.send(ctx, event, target)
	if errors.Is(err, errNoSecret) { // another server may have the key, or this one later
		w.logger.Error("a webhook cannot be signed", "client_id", event.ClientID, "cause", err)
		attempt = Attempt{At: target.now, Fault: "it cannot be signed"}
	} else if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // we broke it off, which says nothing about the receiver
	}
	return w.record(ctx, event, target, attempt, retryAfter)
}

// record stores an attempt and what becomes of its event.
func (w *Webhooks) record(
	ctx context.Context, event Event, target target, attempt Attempt, retryAfter time.Duration,
) error {
	state, delay := after(event.AttemptCount-event.attemptsBefore+1, attempt, retryAfter)
	result, err := w.store.record(ctx, event, target, attempt, state, delay)
	if errors.Is(err, ErrNoEvent) {
		return nil // swept meanwhile
	}
	if err != nil {
		return err
	}
	failed := state == Failed && result.held
	w.count(result.clientName, func(s *Stats) {
		if attempt.Success() {
			s.Delivered++
		} else {
			s.FailedAttempts++
		}
		if failed {
			s.Failed++
		}
	})
	if result.stopped {
		w.logger.Warn("a webhook was stopped: its receiver answered 410", "client_id", event.ClientID)
	}
	if failed {
		w.logger.Warn("an event could not be delivered",
			"client_id", event.ClientID, "event_id", event.ID, "status", attempt.Status, "fault", attempt.Fault)
	}
	return nil
}

// giveUp settles an event whose endpoint was stopped or removed. If the endpoint is back, the event is due again when
// its lease is over.
func (w *Webhooks) giveUp(ctx context.Context, event Event) error {
	clientName, failed, err := w.store.fail(ctx, event.ID)
	if failed {
		w.count(clientName, func(s *Stats) { s.Failed++ })
	}
	return err
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
