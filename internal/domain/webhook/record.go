package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
)

// schedule is the delay of each attempt after the previous one (decisions, section 5). After the last one the event has failed.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// jitter is the part of a delay by which it may be longer.
const jitter = 0.2

// after decides the state of an event after its nth attempt since it was written or replayed.
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

// record stores an attempt and the new state of its event. A receiver that answered 410 is stopped.
func (w *Webhooks) record(
	ctx context.Context, event Event, target target, attempt Attempt, retryAfter time.Duration,
) error {
	state, delay := after(event.AttemptCount-event.attemptsBefore+1, attempt, retryAfter)
	if attempt.Status == http.StatusGone {
		if err := w.stop(ctx, event, target); err != nil {
			return err
		}
	}
	// held is false if another server recorded an attempt since the event was leased.
	held, err := inSlot(ctx, w, w.queries.RecordWebhookAttempt, webhookdb.RecordWebhookAttemptParams{
		UserID:     event.userID,
		EventID:    event.ID,
		Attempts:   int32(event.AttemptCount),
		State:      string(state),
		DueAt:      attempt.At.Add(attempt.Duration + delay), // by the database's clock, as attempt.At is
		At:         attempt.At,
		DurationMs: int32(attempt.Duration.Milliseconds()),
		Status:     postgres.Null(int32(attempt.Status)),
		Fault:      postgres.Null(attempt.Fault),
		Response:   attempt.Response,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // the event was swept or deleted
	}
	if err != nil {
		return err
	}
	if state == Pending && delay < time.Minute {
		time.AfterFunc(delay, w.Wake) // later attempts may be a second late
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
	if attempt.Success() || failed {
		w.settled(event.ClientID, attempt.Success())
	}
	if failed {
		w.logger.Warn("an event could not be delivered",
			"client_id", event.ClientID, "event_id", event.ID, "status", attempt.Status, "fault", attempt.Fault)
	}
	return nil
}

// stop stops an endpoint whose receiver answered that it is gone, unless its URL was replaced.
func (w *Webhooks) stop(ctx context.Context, event Event, target target) error {
	stopped, err := inSlot(ctx, w, w.queries.StopWebhookEndpoint, webhookdb.StopWebhookEndpointParams{
		ClientID: event.ClientID, Url: target.URL, EventID: event.ID,
	})
	if stopped > 0 {
		w.logger.Warn("a webhook was stopped: its receiver answered 410", "client_id", event.ClientID)
	}
	return err
}

// giveUp fails an event whose endpoint was stopped or removed. If the endpoint is back, the event is due again when its lease ends.
func (w *Webhooks) giveUp(ctx context.Context, event Event, target target) error {
	n, err := inSlot(ctx, w, w.queries.FailWebhookEvent, webhookdb.FailWebhookEventParams{UserID: event.userID, EventID: event.ID})
	if n > 0 {
		w.count(target.clientName, func(s *Stats) { s.Failed++ })
		w.settled(event.ClientID, false)
	}
	return err
}
