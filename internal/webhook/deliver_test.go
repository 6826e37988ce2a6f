package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"connect-svc/internal/testing/pgtest"
)

// An event that is written is delivered by its job, and the log says how.
func TestDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("thanks")) })
	client := w.client(t, r)
	done, cancel := w.jobs.Subscribe(river.EventKindJobCompleted)
	defer cancel()
	w.run(t)
	id := w.revoked(t, client)
	c := r.next(t)
	if c.id != messageID(id) {
		t.Errorf("webhook-id %s", c.id)
	}
	<-done
	event := w.event(t, id)
	if event.State != Delivered || len(event.Tries) != 1 || !event.NextTryAt.IsZero() {
		t.Fatalf("the event: %+v", event)
	}
	try := event.Tries[0]
	if !try.Success() || try.Number != 1 || try.Status != 200 || string(try.Answer) != "thanks" || try.Fault != "" {
		t.Errorf("the try: %+v", try)
	}
	if c.header.Get("webhook-timestamp") != fmt.Sprint(try.At.Unix()) {
		t.Errorf("the timestamp was %s, in the log it is %d", c.header.Get("webhook-timestamp"), try.At.Unix())
	}
	if body, err := event.Body(); err != nil || !bytes.Equal(body, c.body) {
		t.Errorf("the log has the body %s (%v), sent was %s", body, err, c.body)
	}
	if w.log.String() != "" {
		t.Errorf("the log: %s", w.log)
	}
}

// What was rolled back is announced to nobody: it has neither event nor job.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, receive(t, nil))
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `insert into webhook_events (client_id, type, grant_id, connection_version, reason)
		values ($1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected')`, client.ID); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.jobsIn(t, "available"); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

func (w *world) jobsIn(t testing.TB, state string) int {
	t.Helper()
	return pgtest.Value[int](t, w.db, "select count(*)::int from river_job where state::text = $1", state)
}

// Decisions section 5: ten tries, each after its delay and up to a fifth more, the same id and body each time.
func TestSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	client := w.client(t, r)
	id := w.revoked(t, client)
	for n := 1; n <= 10; n++ {
		wait := w.try(t, id)
		event := w.event(t, id)
		if event.TryCount != n {
			t.Fatalf("after %d tries the log has %d", n, event.TryCount)
		}
		if n == 10 {
			if wait != 0 || event.State != Failed || !event.NextTryAt.IsZero() {
				t.Errorf("after the last try: %s, %+v", wait, event)
			}
			break
		}
		least := schedule[n]
		if event.State != Pending || wait < least || wait > least+least/5 {
			t.Errorf("after try %d: %s, wait %s, want %s and up to a fifth more", n, event.State, wait, least)
		}
		// A job that comes too early, since its server was killed before it slept, sends nothing.
		if rest := w.try(t, id); rest <= 0 || rest > wait {
			t.Errorf("try %d is due in %s, the job that comes too early sleeps %s", n+1, wait, rest)
		}
		w.db.Clock.Advance(wait)
	}
	calls := r.all()
	if len(calls) != 10 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		if c.id != messageID(id) || !bytes.Equal(c.body, calls[0].body) {
			t.Errorf("a call with another id or body: %s %s", c.id, c.body)
		}
	}
	if w.try(t, id) != 0 || len(r.all()) != 10 {
		t.Error("a failed event was tried again")
	}
	if log := w.log.String(); !strings.Contains(log, "an event could not be delivered") || !strings.Contains(log, `"status":503`) {
		t.Errorf("the log: %s", log)
	}
}

// The jitter is between nothing and a fifth, and not always the same.
func TestJitter(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 1000 {
		state, delay := after(2, Try{Status: 500}, 0)
		if state != Pending || delay < 5*time.Minute || delay > 6*time.Minute {
			t.Fatalf("%s, %s", state, delay)
		}
		seen[delay.Truncate(6*time.Second)] = true
	}
	if len(seen) < 9 {
		t.Errorf("%d tenths of the jitter in 1,000 delays", len(seen))
	}
}

// A Retry-After is honoured when it is later than the schedule, up to a day.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                              0,
		"soon":                          0,
		"-1":                            0,
		"3":                             3 * time.Second,
		"3600":                          time.Hour,
		"86400":                         24 * time.Hour,
		"86401":                         24 * time.Hour,
		"18446744073709551615":          24 * time.Hour,
		"18446744073709551616":          0,
		"Sat, 21 Nov 2026 10:30:00 GMT": 30 * time.Minute,
		"Sat, 21 Nov 2026 09:30:00 GMT": 0,
		"Sat, 21 Nov 2099 10:30:00 GMT": 24 * time.Hour,
	} {
		if got := retryAfterOf(text, now); got != want {
			t.Errorf("Retry-After: %s is %s, want %s", text, got, want)
		}
	}

	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "7200")
		rw.WriteHeader(http.StatusTooManyRequests)
	})
	id := w.revoked(t, w.client(t, r))
	if wait := w.try(t, id); wait != 2*time.Hour {
		t.Errorf("the job waits %s", wait)
	}
	if event := w.event(t, id); event.NextTryAt.Sub(event.Tries[0].At).Round(time.Minute) != 2*time.Hour {
		t.Errorf("the next try is at %s", event.NextTryAt)
	}
}

// 410 Gone: the URL is stopped, the operator is told, nothing more is sent until a URL is set again.
func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusGone) })
	client := w.client(t, r)
	first, second := w.revoked(t, client), w.revoked(t, client)
	if wait := w.try(t, first); wait != 0 {
		t.Errorf("the job waits %s", wait)
	}
	w.try(t, second)
	if n := len(r.all()); n != 1 {
		t.Errorf("%d calls", n)
	}
	if event := w.event(t, first); event.State != Failed || event.TryCount != 1 || event.Tries[0].Status != 410 {
		t.Errorf("the event: %+v", event)
	}
	if event := w.event(t, second); event.State != Failed || event.TryCount != 0 {
		t.Errorf("the other event: %+v", event)
	}
	if endpoint, err := w.Endpoint(t.Context(), client.ID); err != nil || endpoint.StoppedAt.IsZero() {
		t.Errorf("the endpoint: %+v, %v", endpoint, err)
	}
	if log := w.log.String(); !strings.Contains(log, `"level":"WARN","msg":"a webhook was stopped`) {
		t.Errorf("the log: %s", log)
	}
	if n := pgtest.Value[int](t, w.db, `select count(*)::int from audit_events
		where actor = 'system' and action = 'webhook.stopped' and client_id = $1`, client.ID); n != 1 {
		t.Errorf("%d audit events", n)
	}
	if err := w.Replay(t.Context(), first); err == nil || !strings.Contains(err.Error(), ErrStopped.Error()) {
		t.Errorf("a replay: %v", err)
	}

	better := receive(t, nil)
	if secret, err := w.SetEndpoint(t.Context(), client.ID, better.URL); err != nil || secret != "" {
		t.Fatalf("%q, %v", secret, err)
	}
	if err := w.Replay(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.try(t, first)
	if event := w.event(t, first); event.State != Delivered || event.TryCount != 2 || len(better.all()) != 1 {
		t.Errorf("after a new URL: %+v", event)
	}
}

// A URL that replaced the one that is gone while the try was under way is not stopped.
func TestGoneAfterANewURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var client pgtest.Client
	better := receive(t, nil)
	r := receive(t, func(rw http.ResponseWriter, request *http.Request) {
		if _, err := w.SetEndpoint(request.Context(), client.ID, better.URL); err != nil {
			t.Error(err)
		}
		rw.WriteHeader(http.StatusGone)
	})
	client = w.client(t, r)
	w.try(t, w.revoked(t, client))
	if endpoint, err := w.Endpoint(t.Context(), client.ID); err != nil || !endpoint.StoppedAt.IsZero() {
		t.Errorf("the endpoint: %+v, %v", endpoint, err)
	}
}

// What waits for an endpoint that was removed is not sent.
func TestRemovedEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	client := w.client(t, r)
	id := w.revoked(t, client)
	if err := w.RemoveEndpoint(t.Context(), client.ID); err != nil {
		t.Fatal(err)
	}
	w.try(t, id)
	if event := w.event(t, id); event.State != Failed || event.TryCount != 0 || len(r.all()) != 0 {
		t.Errorf("the event: %+v", event)
	}
	if err := w.Replay(t.Context(), id); err == nil || !strings.Contains(err.Error(), ErrNoEndpoint.Error()) {
		t.Errorf("a replay: %v", err)
	}
}

// A replay has the same webhook-id and begins the schedule again; its job comes at once.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := http.StatusInternalServerError
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
	id := w.revoked(t, w.client(t, r))
	for range 10 {
		w.db.Clock.Advance(w.try(t, id))
	}
	w.db.Exec(t, "delete from river_job")
	if err := w.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := w.jobsIn(t, "available"); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if wait := w.try(t, id); wait < 5*time.Second || wait > 6*time.Second {
		t.Errorf("after the first try of a replay the job waits %s", wait)
	}

	// A pending event is tried at once, by the job that it has.
	w.db.Exec(t, "update river_job set state = 'scheduled', scheduled_at = now() + interval '1 day'")
	if err := w.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from river_job where state = 'available' and scheduled_at <= now()"); n != 1 {
		t.Errorf("%d jobs that are due", n)
	}
	status = http.StatusOK
	w.try(t, id)
	if event := w.event(t, id); event.State != Delivered || event.TryCount != 12 || len(event.Tries) != 12 {
		t.Errorf("the event: %+v", event)
	}

	// One that was delivered can be sent again, too.
	if err := w.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.try(t, id)
	calls := r.all()
	if len(calls) != 13 {
		t.Errorf("%d calls", len(calls))
	}
	for _, c := range calls {
		if c.id != messageID(id) {
			t.Errorf("webhook-id %s", c.id)
		}
	}
	if err := w.Replay(t.Context(), uuid.New()); err == nil || !strings.Contains(err.Error(), ErrNoEvent.Error()) {
		t.Errorf("no such event: %v", err)
	}
}

// Two jobs with one event, as after a server that was given up too early: both tries are in the log, one job goes on.
func TestTwoJobsWithOneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var both sync.WaitGroup
	both.Add(2)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) {
		both.Done()
		both.Wait()
		rw.WriteHeader(http.StatusInternalServerError)
	})
	id := w.revoked(t, w.client(t, r))
	waits := make(chan time.Duration, 2)
	for range 2 {
		go func() {
			wait, err := w.deliver(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			waits <- wait
		}()
	}
	if one, other := <-waits, <-waits; (one == 0) == (other == 0) {
		t.Errorf("the jobs wait %s and %s", one, other)
	}
	if event := w.event(t, id); event.State != Pending || len(event.Tries) != 2 {
		t.Errorf("the event: %+v", event)
	}
}

// A secret that this server's keyset cannot open is a try that failed, and an error in the log.
func TestForeignKeyset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	id := w.revoked(t, w.client(t, r))
	w.db.Exec(t, "update webhook_endpoints set secret = 'x'")
	if wait := w.try(t, id); wait == 0 {
		t.Error("the job does not wait")
	}
	if event := w.event(t, id); event.State != Pending || len(event.Tries) != 1 || event.Tries[0].Fault == "" || len(r.all()) != 0 {
		t.Errorf("the event: %+v", event)
	}
	if !strings.Contains(w.log.String(), `"level":"ERROR"`) {
		t.Errorf("the log: %s", w.log)
	}
}

// A server that stops sends nothing new, gives what runs its time, and leaves the rest to others at once.
func TestStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running, release := make(chan struct{}), make(chan struct{})
	r := receive(t, func(http.ResponseWriter, *http.Request) {
		running <- struct{}{}
		<-release
	})
	id := w.revoked(t, w.client(t, r))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	<-running
	stop()
	later := w.revoked(t, w.client(t, nil))
	close(release)
	<-ended
	if event := w.event(t, id); event.State != Delivered {
		t.Errorf("the event that was being sent: %+v", event)
	}
	if event := w.event(t, later); event.State != Pending || event.TryCount != 0 {
		t.Errorf("the event that came later: %+v", event)
	}
	if n := w.jobsIn(t, "running"); n != 0 {
		t.Errorf("%d jobs are left as running", n)
	}
}
