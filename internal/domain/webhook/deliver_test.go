package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// An event that is written is delivered, and the log says how.
func TestDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("thanks")) })
	client := w.client(t, r)
	stop := w.run(t)
	id := w.revoked(t, client)
	c := r.next(t)
	if c.id != messageID(id) {
		t.Errorf("webhook-id %s", c.id)
	}
	stop()
	event := w.event(t, id)
	if event.State != Delivered || len(event.Attempts) != 1 || !event.NextAttemptAt.IsZero() {
		t.Fatalf("the event: %+v", event)
	}
	attempt := event.Attempts[0]
	if !attempt.Success() || attempt.Number != 1 || attempt.Status != 200 || string(attempt.Response) != "thanks" || attempt.Fault != "" {
		t.Errorf("the attempt: %+v", attempt)
	}
	if c.header.Get("webhook-timestamp") != fmt.Sprint(attempt.At.Unix()) {
		t.Errorf("the timestamp was %s, in the log it is %d", c.header.Get("webhook-timestamp"), attempt.At.Unix())
	}
	if body, err := event.Body(); err != nil || !bytes.Equal(body, c.body) {
		t.Errorf("the log has the body %s (%v), sent was %s", body, err, c.body)
	}
	if w.log.String() != "" {
		t.Errorf("the log: %s", w.log)
	}
}

// An event that is sent while the database's clock is wrong, and no server has noticed, has the right timestamp, because receivers refuse
// others. Both secrets sign it for as long as they should.
func TestDeliveredWhileTheClockIsWrong(t *testing.T) {
	pgtest.NotOnCluster(t, "its clock is that of each node")
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(http.ResponseWriter, *http.Request) {})
	client := w.client(t, r)
	if _, err := w.RotateSecret(t.Context(), client.ID, SecretOverlap, nil); err != nil {
		t.Fatal(err)
	}
	for _, jump := range []time.Duration{401 * 24 * time.Hour, -time.Hour} {
		w.pool.Clock().Believe(0)
		w.db.Jump(t, jump)
		w.attemptNow(t, w.revoked(t, client))
		c := r.next(t)
		if at, err := strconv.ParseInt(c.header.Get("webhook-timestamp"), 10, 64); err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
			t.Errorf("with the clock at %s an event of now has a timestamp of %s ago (%v)", jump, time.Since(time.Unix(at, 0)), err)
		}
		if n := len(strings.Fields(c.header.Get("webhook-signature"))); n != 2 {
			t.Errorf("with the clock at %s an event has %d signatures", jump, n)
		}
		w.db.Jump(t, 0)
	}
}

// Decisions section 5: ten attempts, each after its delay and up to a fifth more, the same id and body each time.
func TestSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	client := w.client(t, r)
	id := w.revoked(t, client)
	for n := 1; n <= 10; n++ {
		if events := w.claimed(t, nil); len(events) != 1 {
			t.Fatalf("attempt %d is not due", n)
		}
		wait := w.attemptNow(t, id)
		event := w.event(t, id)
		if event.AttemptCount != n {
			t.Fatalf("after %d attempts the log has %d", n, event.AttemptCount)
		}
		if n == 10 {
			if wait != 0 || event.State != Failed || !event.NextAttemptAt.IsZero() {
				t.Errorf("after the last attempt: %s, %+v", wait, event)
			}
			break
		}
		least := schedule[n]
		if event.State != Pending || wait < least || wait > least+least/5 {
			t.Errorf("after attempt %d: %s, wait %s, want %s and up to a fifth more", n, event.State, wait, least)
		}
		w.db.Clock.Advance(wait - 2*time.Second)
		if events := w.claimed(t, nil); len(events) != 0 {
			t.Errorf("attempt %d is due before its time", n+1)
		}
		w.db.Clock.Advance(3 * time.Second)
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
	if len(w.claimed(t, nil)) != 0 {
		t.Error("a failed event is due")
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
		state, delay := after(2, Attempt{Status: 500}, 0)
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
		"":                                 0,
		"soon":                             0,
		"-1":                               0,
		"3":                                3 * time.Second,
		"3600":                             time.Hour,
		"86400":                            24 * time.Hour,
		"86401":                            24 * time.Hour,
		"18446744073709551615":             24 * time.Hour,
		"18446744073709551616":             24 * time.Hour,
		"000060":                           time.Minute,
		"+60":                              0,
		"1.5":                              0,
		"Saturday, 21-Nov-26 10:30:00 GMT": 30 * time.Minute, // the obsolete forms of RFC 9110, section 5.6.7
		"Sat Nov 21 10:30:00 2026":         30 * time.Minute,
		"Sat, 21 Nov 2026 10:30:00 GMT":    30 * time.Minute,
		"Sat, 21 Nov 2026 09:30:00 GMT":    0,
		"Sat, 21 Nov 2099 10:30:00 GMT":    24 * time.Hour,
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
	if wait := w.attemptNow(t, id).Round(time.Minute); wait != 2*time.Hour { // the attempt takes its time
		t.Errorf("the event waits %s", wait)
	}
	if event := w.event(t, id); event.NextAttemptAt.Sub(event.Attempts[0].At).Round(time.Minute) != 2*time.Hour {
		t.Errorf("the next attempt is at %s", event.NextAttemptAt)
	}
}

// 410 Gone: the URL is stopped, the operator is told, nothing more is sent until a URL is set again.
func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusGone) })
	client := w.client(t, r)
	first, second := w.revoked(t, client), w.revoked(t, client)
	if wait := w.attemptNow(t, first); wait != 0 {
		t.Errorf("the event waits %s", wait)
	}
	w.attemptNow(t, second)
	if n := len(r.all()); n != 1 {
		t.Errorf("%d calls", n)
	}
	if event := w.event(t, first); event.State != Failed || event.AttemptCount != 1 || event.Attempts[0].Status != 410 {
		t.Errorf("the event: %+v", event)
	}
	if event := w.event(t, second); event.State != Failed || event.AttemptCount != 0 {
		t.Errorf("the other event: %+v", event)
	}
	if endpoint, err := w.Endpoint(t.Context(), client.ID); err != nil || endpoint.StoppedAt.IsZero() {
		t.Errorf("the endpoint: %+v, %v", endpoint, err)
	}
	if log := w.log.String(); !strings.Contains(log, `"level":"WARN","msg":"a webhook was stopped`) {
		t.Errorf("the log: %s", log)
	}
	if n := pgtest.Value[int](t, w.db, `select count(*)::int from audit_log
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
	w.attemptNow(t, first)
	if event := w.event(t, first); event.State != Delivered || event.AttemptCount != 2 || len(better.all()) != 1 {
		t.Errorf("after a new URL: %+v", event)
	}
}

// goneAfterANewURL returns an event whose receiver, when it is sent, sets another URL and answers 410. better is the receiver of that URL.
func (w *world) goneAfterANewURL(t *testing.T) (client pgtest.Client, id uuid.UUID, better *receiver) {
	t.Helper()
	better = receive(t, nil)
	r := receive(t, func(rw http.ResponseWriter, request *http.Request) {
		if _, err := w.SetEndpoint(request.Context(), client.ID, better.URL); err != nil {
			t.Error(err)
		}
		rw.WriteHeader(http.StatusGone)
	})
	client = w.client(t, r)
	return client, w.revoked(t, client), better
}

// A URL that replaced the one that is gone during an attempt is not stopped, and gets the event.
func TestGoneAfterANewURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, id, better := w.goneAfterANewURL(t)
	if wait := w.attemptNow(t, id); wait < 5*time.Second || wait > 6*time.Second {
		t.Errorf("the event waits %s, want 5s and up to a fifth more", wait)
	}
	if endpoint, err := w.Endpoint(t.Context(), client.ID); err != nil || !endpoint.StoppedAt.IsZero() {
		t.Errorf("the endpoint: %+v, %v", endpoint, err)
	}
	w.attemptNow(t, id)
	if event := w.event(t, id); event.State != Delivered || len(better.all()) != 1 {
		t.Errorf("the event: %+v", event)
	}
}

// unread lets the statement that reads webhooks fail after a receiver was stopped, as where the database goes away between the two.
type unread struct{ stopped bool }

func (u *unread) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(query.SQL, "-- name: StopWebhookEndpoint ") {
		u.stopped = true
	}
	if u.stopped && strings.HasPrefix(query.SQL, "-- name: ListWebhookTargets ") {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return ended
	}
	return ctx
}

func (*unread) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Nor does such an event fail if the database goes away before it tells of the new URL: it is sent there when its lease ends.
func TestGoneAfterANewURLThatIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, id, better := w.goneAfterANewURL(t)
	pool, err := postgres.Open(t.Context(), w.db.URL, postgres.WithClock(w.db.Clock), postgres.WithTracer(new(unread)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	server := newWorldOn(t, &pgtest.DB{Pool: pool, URL: w.db.URL, Clock: w.db.Clock}, w.keys)
	w.taken(t)
	event := server.toSend(t, server.event(t, id))
	if err := server.attempt(t.Context(), event, nil); err != nil || event.attempt.Status != http.StatusGone {
		t.Fatalf("status %d, %v", event.attempt.Status, err)
	}
	if err := server.settle(t.Context(), event, nil, nil); err == nil {
		t.Error("an outcome that is not known was recorded")
	}
	w.attemptNow(t, id)
	if event := w.event(t, id); event.State != Delivered || len(better.all()) != 1 {
		t.Errorf("the event is %s, and the new receiver got %d calls", event.State, len(better.all()))
	}
}

// Events that wait for a removed endpoint are not sent.
func TestRemovedEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	client := w.client(t, r)
	id := w.revoked(t, client)
	if err := w.RemoveEndpoint(t.Context(), client.ID); err != nil {
		t.Fatal(err)
	}
	w.attemptNow(t, id)
	if event := w.event(t, id); event.State != Failed || event.AttemptCount != 0 || len(r.all()) != 0 {
		t.Errorf("the event: %+v", event)
	}
	if err := w.Replay(t.Context(), id); err == nil || !strings.Contains(err.Error(), ErrNoEndpoint.Error()) {
		t.Errorf("a replay: %v", err)
	}
}

// A replay has the same webhook-id, is due at once and begins the schedule again, whatever the event's state.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := http.StatusInternalServerError
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
	id := w.revoked(t, w.client(t, r))
	replay := func(from State) {
		t.Helper()
		if state := w.event(t, id).State; state != from {
			t.Errorf("before the replay the event is %s, want %s", state, from)
		}
		if err := w.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if events := w.claimed(t, nil); len(events) != 1 {
			t.Errorf("%d events are due", len(events))
		}
	}
	for range 10 {
		w.attemptNow(t, id)
	}
	replay(Failed)
	if wait := w.attemptNow(t, id); wait < 5*time.Second || wait > 6*time.Second {
		t.Errorf("after the first attempt of a replay the event waits %s", wait)
	}
	replay(Pending)
	status = http.StatusOK
	w.attemptNow(t, id)
	if event := w.event(t, id); event.State != Delivered || event.AttemptCount != 12 || len(event.Attempts) != 12 {
		t.Errorf("the event: %+v", event)
	}
	replay(Delivered)
	w.attemptNow(t, id)
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

// An event that was replayed without end, to a receiver that answers as much as is kept, is read with its latest attempts alone: all of them would
// take the memory of the server.
func TestEventOfManyReplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.revoked(t, w.client(t, nil))
	const made = 3 * mostAttempts
	w.db.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, response)
		select user_id, event_id, n, connect_now(), 1, 500, convert_to(repeat('x', $3), 'UTF8') from webhook_events, generate_series(1, $2) n where event_id = $1`,
		id, made, maxResponse)
	w.db.Exec(t, "update webhook_events set attempts = $2, attempts_before = $2 where event_id = $1", id, made)
	event := w.event(t, id)
	if event.AttemptCount != made || len(event.Attempts) != mostAttempts {
		t.Fatalf("%d of %d attempts are read, want %d", len(event.Attempts), event.AttemptCount, mostAttempts)
	}
	if first, last := event.Attempts[0].Number, event.Attempts[mostAttempts-1].Number; first != made-mostAttempts+1 || last != made {
		t.Errorf("attempts %d to %d, want the latest", first, last)
	}
}

// An event that is replayed while a sweep finds that it is 30 days old is sent, as the replay was answered.
func TestReplayDuringASweep(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	w := newWorld(t)
	id := w.revoked(t, w.client(t, nil))
	w.taken(t)
	w.db.Exec(t, "update webhook_events set state = 'failed', created_at = created_at - interval '30 days 1 minute', leased_until = null")
	replaying, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer replaying.Rollback(t.Context()) //nolint:errcheck // it was committed, or the test has failed
	err = w.queries.WithTx(replaying).ReplayWebhookEvent(t.Context(), webhookdb.ReplayWebhookEventParams{
		UserID: w.event(t, id).userID, EventID: id, Actor: work.System,
	})
	if err != nil {
		t.Fatal(err)
	}
	swept := make(chan error, 1)
	go func() { swept <- w.Sweep(t.Context(), w.db.Now()) }()
	wait.Until(t, "the sweep waits", func() bool { return w.db.Waiting(t) > 0 })
	if err := replaying.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "the sweep", swept); err != nil {
		t.Error(err)
	}
	if event := w.event(t, id); event.State != Pending {
		t.Errorf("the event is %s", event.State)
	}
}

// An attempt that ends after a replay does not end the replay: the event is still due at once, and its schedule begins with the replay's first
// attempt.
func TestReplayDuringAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }))
	for _, before := range []int{3, len(schedule) - 1} { // attempts
		id := w.revoked(t, client)
		w.db.Exec(t, "update webhook_events set attempts = $2 where event_id = $1", id, before)
		claim := func() *claimed {
			t.Helper()
			events := w.claimed(t, nil)
			if len(events) != 1 {
				t.Fatalf("after %d attempts %d events are due", before, len(events))
			}
			return events[0]
		}
		end := func(event *claimed) {
			t.Helper()
			if err := w.leases().Do(t.Context(), event, nil); err != nil {
				t.Fatal(err)
			}
		}
		replay := func() {
			t.Helper()
			if err := w.Replay(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		earlier := claim()
		replay()
		end(earlier)
		earlier = claim()
		replay()
		replayed := claim()
		end(earlier)
		end(replayed)
		event := w.event(t, id)
		last := event.Attempts[len(event.Attempts)-1]
		if wait := event.NextAttemptAt.Sub(last.At.Add(last.Duration)); event.State != Pending || len(event.Attempts) != 3 || wait > 6*time.Second {
			t.Errorf("after %d attempts the replayed event is %s, and waits %s", before, event.State, wait)
		}
		w.db.Clock.Advance(time.Minute)
		end(claim())
		event = w.event(t, id)
		if wait := event.NextAttemptAt.Sub(event.Attempts[3].At); wait < 5*time.Minute || wait > 7*time.Minute {
			t.Errorf("after its second attempt it waits %s", wait)
		}
		w.db.Exec(t, "update webhook_events set state = 'delivered'")
	}
}

// Two servers with one event, as after a lease that was over too early: both attempts are in the log, and the event goes
// on by the first.
func TestTwoServersWithOneEvent(t *testing.T) {
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
	w.taken(t)
	event := w.event(t, id)
	var servers sync.WaitGroup
	for range 2 {
		servers.Go(func() {
			if err := w.leases().Do(t.Context(), w.toSend(t, event), nil); err != nil {
				t.Error(err)
			}
		})
	}
	servers.Wait()
	event = w.event(t, id)
	if event.State != Pending || len(event.Attempts) != 2 {
		t.Errorf("the event: %+v", event)
	}
	if wait := event.NextAttemptAt.Sub(event.Attempts[0].At); wait > 7*time.Second {
		t.Errorf("the next attempt is due after %s, as if one after the other had failed", wait)
	}
}

// An attempt that fails when its lease is over is in the log. It does not end the lease that another server has of the event by
// then, and what was delivered stays delivered.
func TestLateFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := http.StatusInternalServerError
	id := w.revoked(t, w.client(t, receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })))
	w.taken(t)
	late := w.toSend(t, w.event(t, id))
	fail := func() {
		t.Helper()
		status = http.StatusInternalServerError
		if err := w.leases().Do(t.Context(), late, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.attemptNow(t, id)
	w.db.Clock.Advance(time.Minute)
	leased := w.claimed(t, nil)
	fail()
	w.db.Clock.Advance(time.Hour) // a lease is of real time
	if len(leased) != 1 || len(w.claimed(t, nil)) != 0 {
		t.Fatalf("%d events were leased, or one is leased twice", len(leased))
	}
	status = http.StatusOK
	if err := w.leases().Do(t.Context(), leased[0], nil); err != nil {
		t.Fatal(err)
	}
	fail()
	if event := w.event(t, id); event.State != Delivered || len(event.Attempts) != 4 {
		t.Errorf("the event: %+v", event)
	}
}

// An event that a receiver took at the last moment of a server that stops is delivered. Any other attempt that the server broke off was none.
func TestAttemptThatEndsWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, nil)
	for status, want := range map[int]State{http.StatusOK: Delivered, 0: Pending, http.StatusServiceUnavailable: Pending} {
		id := w.revoked(t, client)
		w.taken(t)
		event := w.toSend(t, w.event(t, id))
		event.attempt = Attempt{At: w.db.Now(), Status: status}
		err := w.settle(t.Context(), event, nil, context.Canceled)
		if got := w.event(t, id); got.State != want || (len(got.Attempts) == 1) != (want == Delivered) || (err == nil) != (want == Delivered) {
			t.Errorf("status %d: %s with %d attempts, %v", status, got.State, len(got.Attempts), err)
		}
	}
}

// A secret that this server's keyset cannot open is a failed attempt, and an error in the log.
func TestForeignKeyset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	id := w.revoked(t, w.client(t, r))
	w.db.Exec(t, "update webhook_endpoints set secret = 'x'")
	if wait := w.attemptNow(t, id); wait == 0 {
		t.Error("the event does not wait")
	}
	if event := w.event(t, id); event.State != Pending || len(event.Attempts) != 1 || event.Attempts[0].Fault == "" || len(r.all()) != 0 {
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
	if event := w.event(t, later); event.State != Pending || event.AttemptCount != 0 {
		t.Errorf("the event that came later: %+v", event)
	}
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_events where leased_until > now()"); n != 0 {
		t.Errorf("%d events are left leased", n)
	}
}
