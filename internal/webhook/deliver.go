package webhook

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"connect-svc/internal/postgres"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// schedule is how long after the try before each try follows (decisions, section 5). After the last one the event has
// failed.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// jitter is by how much a delay may be longer, as a share of it.
const jitter = 0.2

// delivery is a job: it carries one event until that is settled. Triggers write it (migration 0010).
type delivery struct {
	EventID  uuid.UUID `json:"event_id"`
	ClientID uuid.UUID `json:"client_id"`
}

// Kind is part of what lies in the database.
func (delivery) Kind() string { return "webhook_delivery" }

const queue = "webhooks"

// Times of the job queue. A server that is killed leaves its jobs as running; after rescueAfter the leading server,
// which looks each 30 s, gives them to others. No job that lives takes as long.
const (
	pollEvery    = 100 * time.Millisecond
	pollAtMost   = 50 * time.Millisecond // between two looks while there are jobs
	jobTimeout   = 15 * time.Second
	rescueAfter  = 20 * time.Second
	softStop     = sendTimeout + time.Second
	keepJobs     = 10 * time.Minute // done ones; what is kept of an event is in its own table
	keepBadJobs  = 30 * 24 * time.Hour
	faultBackoff = 4 * time.Second
)

func (w *Webhooks) newJobs(pool *postgres.Pool) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, river.WorkFunc(w.work)); err != nil {
		return nil, err
	}
	return river.NewClient(riverpgxv5.New(pool.Pool), &river.Config{
		Queues:                      map[string]river.QueueConfig{queue: {MaxWorkers: maxWorkers}},
		Workers:                     workers,
		PollOnly:                    true, // a connection of its own would not pass through PgBouncer
		FetchPollInterval:           pollEvery,
		FetchCooldown:               pollAtMost,
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		SoftStopTimeout:             softStop,
		CompletedJobRetentionPeriod: keepJobs,
		DiscardedJobRetentionPeriod: keepBadJobs,
		RetryPolicy:                 retry{},
		Logger:                      slog.New(onlyWarnings{w.logger.Handler()}),
	})
}

// retry is when a job comes again that could not do its work, because the database was away. Tries that a receiver did
// not take are no such thing: their job sleeps.
type retry struct{}

func (retry) NextRetry(*rivertype.JobRow) time.Time {
	return time.Now().Add(faultBackoff/2 + rand.N(faultBackoff/2))
}

// onlyWarnings leaves out what River tells of its daily life.
type onlyWarnings struct{ slog.Handler }

func (h onlyWarnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
func (h onlyWarnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return onlyWarnings{h.Handler.WithAttrs(attrs)}
}
func (h onlyWarnings) WithGroup(name string) slog.Handler {
	return onlyWarnings{h.Handler.WithGroup(name)}
}

// work does what is due for an event, and says when it is to be looked at again. It can be run again after any of its
// steps: the event's row alone says what was done.
func (w *Webhooks) work(ctx context.Context, job *river.Job[delivery]) error {
	wait, done := w.shares.take(ctx, job.Args.ClientID)
	if wait > 0 {
		return river.JobSnooze(wait)
	}
	wait, err := w.deliver(ctx, job.Args.EventID)
	done()
	switch {
	case ctx.Err() != nil && err != nil:
		return river.JobSnooze(0) // the server stops; another one goes on at once
	case err != nil:
		return err
	case wait > 0:
		return river.JobSnooze(wait)
	default:
		return nil
	}
}

// deliver makes the try that is due, and returns how long the event's job is to sleep; 0: the event is settled.
func (w *Webhooks) deliver(ctx context.Context, id uuid.UUID) (wait time.Duration, err error) {
	event, target, err := w.store.delivery(ctx, id)
	switch {
	case errors.Is(err, ErrNoEvent):
		return 0, nil
	case err != nil:
		return 0, err
	case event.State != Pending:
		return 0, nil
	case target.wait > 0:
		return target.wait, nil
	case target.stopped:
		return 0, w.giveUp(ctx, event, target)
	}
	try, retryAfter, err := w.send(ctx, event, target)
	if errors.Is(err, errNoSecret) { // it may be readable for another server, and later
		w.logger.Error("a webhook cannot be signed", "client_id", event.ClientID, "cause", err)
		try = Try{At: target.now, Fault: "it cannot be signed"}
	} else if err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err() // the try was broken off by us
	}
	return w.record(ctx, event, target, try, retryAfter)
}

// record writes down a try and what becomes of its event.
func (w *Webhooks) record(
	ctx context.Context, event Event, target target, try Try, retryAfter time.Duration,
) (wait time.Duration, err error) {
	state, delay := after(event.TryCount-event.triesBefore+1, try, retryAfter)
	result, err := w.store.record(ctx, event, target, try, state, delay)
	if err != nil {
		return 0, err
	}
	w.counts.tried(target.clientName, try.Success())
	if result.stopped {
		w.logger.Warn("a webhook was stopped: its receiver answered 410", "client_id", event.ClientID)
	}
	if !result.held {
		return 0, nil // another job has the event
	}
	if state == Failed {
		w.counts.failed(target.clientName)
		w.logger.Warn("an event could not be delivered",
			"client_id", event.ClientID, "event_id", event.ID, "status", try.Status, "fault", try.Fault)
	}
	return delay, nil
}

// giveUp settles an event whose endpoint was stopped or removed. Where it is there again meanwhile, the event is looked
// at once more.
func (w *Webhooks) giveUp(ctx context.Context, event Event, target target) error {
	failed, err := w.store.fail(ctx, event.ID)
	if err != nil {
		return err
	}
	if !failed {
		return river.JobSnooze(0)
	}
	w.counts.failed(target.clientName)
	return nil
}

// after decides what becomes of an event after its nth try since it was written or replayed.
func after(n int, try Try, retryAfter time.Duration) (state State, delay time.Duration) {
	switch {
	case try.Success():
		return Delivered, 0
	case try.Status == http.StatusGone, n >= len(schedule):
		return Failed, 0
	}
	delay = schedule[n]
	delay += time.Duration(rand.Float64() * jitter * float64(delay))
	return Pending, max(delay, retryAfter)
}
