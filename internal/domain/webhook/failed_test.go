package webhook

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
)

// Offboarding ends all: an event that waits fails without being sent, and cannot be sent again. Neither is a sample sent.
func TestOffboarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	client := w.client(t, r)
	id := w.revoked(t, client)
	w.db.Exec(t, "update clients set status = 'offboarded' where client_id = $1", client.ID)
	w.attemptNow(t, id)
	if event := w.event(t, id); event.State != Failed || event.AttemptCount != 0 || len(r.all()) != 0 {
		t.Errorf("the event: %+v", event)
	}
	if err := w.Replay(t.Context(), id); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("a replay: %v", err)
	}
	if _, err := w.SendSample(t.Context(), client.ID, ConnectionRevoked); !errors.Is(err, refusal.ErrClientOffboarded) || len(r.all()) != 0 {
		t.Errorf("a sample: %v, and %d calls", err, len(r.all()))
	}
}

// Events count as given up if their receiver answered 410, and not if somebody removed their webhook or offboarded their client: nobody has to look
// at those, and they cannot be sent again.
func TestEventsThatNobodyGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var settled []string
	for name, ends := range map[string]func(uuid.UUID){
		"removed": func(id uuid.UUID) {
			if err := w.RemoveEndpoint(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"offboarded": func(id uuid.UUID) { w.db.Exec(t, "update clients set status = 'offboarded' where client_id = $1", id) },
		"stopped": func(id uuid.UUID) {
			w.db.Exec(t, "update webhook_endpoints set stopped_at = now() where client_id = $1", id)
		},
	} {
		client := w.client(t, nil)
		w.db.Exec(t, "update clients set name = $2 where client_id = $1", client.ID, name)
		w.settled = func(uuid.UUID, bool) { settled = append(settled, name) }
		event := w.revoked(t, client)
		ends(client.ID)
		w.attemptNow(t, event)
		if got := w.event(t, event); got.State != Failed || got.AttemptCount != 0 {
			t.Errorf("%s: the event is %s after %d attempts", name, got.State, got.AttemptCount)
		}
	}
	stats, err := w.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		if given := s.Failed > 0; given != (s.Client == "stopped") {
			t.Errorf("%s: %d events were given up", s.Client, s.Failed)
		}
	}
	if !slices.Equal(settled, []string{"stopped"}) {
		t.Errorf("the day's figures have events of %v", settled)
	}
}

// The failed events of one client are sent again in parts, the oldest first; nobody else's are.
func TestReplayFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, another := w.client(t, nil), w.client(t, nil)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, w.revoked(t, client))
	}
	foreign := w.revoked(t, another)
	w.taken(t)
	counts := func(wantWaiting, wantFailed int) {
		t.Helper()
		if waiting, failed, err := w.Waiting(t.Context(), client.ID); err != nil || waiting != wantWaiting || failed != wantFailed {
			t.Errorf("%d wait, %d failed, %v; want %d and %d", waiting, failed, err, wantWaiting, wantFailed)
		}
	}
	counts(5, 0)
	w.db.Exec(t, "update webhook_events set state = 'failed'")
	began := pgtest.Value[time.Time](t, w.db, "select max(created_at) from webhook_events")
	for i, id := range ids {
		w.db.Exec(t, "update webhook_events set created_at = $2 where event_id = $1", id, began.Add(time.Duration(i)*time.Millisecond))
	}
	counts(0, 5)

	latest := func(after page.Key, limit int) (list []uuid.UUID, last page.Key) {
		t.Helper()
		events, err := w.Events(t.Context(), Filter{ClientID: client.ID, State: Failed, After: after, Limit: limit, LatestFirst: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			list, last = append(list, event.ID), event.Key()
		}
		return list, last
	}
	first, last := latest(page.Key{}, 2)
	rest, _ := latest(last, 10)
	if all := append(first, rest...); len(first) != 2 || len(all) != 5 || all[0] != ids[4] || all[4] != ids[0] {
		t.Errorf("the latest first: %v, want %v turned around", all, ids)
	}

	for _, want := range []int{3, 2, 0} {
		if n, err := w.ReplayFailed(t.Context(), client.ID, 3); err != nil || n != want {
			t.Errorf("%d replayed, %v, want %d", n, err, want)
		}
		if want == 3 {
			counts(3, 2)
			if left, _ := latest(page.Key{}, 10); left[len(left)-1] != ids[3] {
				t.Error("not the oldest were sent first")
			}
		}
	}
	counts(5, 0)
	if event := w.event(t, foreign); event.State != Failed {
		t.Errorf("another client's event is %s", event.State)
	}
	w.db.Exec(t, "update webhook_events set state = 'failed'")
	w.db.Exec(t, "update webhook_endpoints set stopped_at = now()")
	if n, err := w.ReplayFailed(t.Context(), client.ID, 3); n != 0 || !errors.Is(err, ErrStopped) {
		t.Errorf("stopped: %d, %v", n, err)
	}
	if _, _, err := w.Waiting(t.Context(), uuid.New()); err != nil {
		t.Error(err)
	}
}

// An event that is given up counts for a day as one that failed, however old it is by then: its receiver may ask for a day before each attempt,
// and an event waits four days for a paused webhook.
func TestFailedOfDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }
	slow, paused := w.client(t, receive(t, gone)), w.client(t, nil)
	tried, waits, former := w.revoked(t, slow), w.revoked(t, paused), w.revoked(t, slow)
	at := w.db.Now()
	w.db.Exec(t, "update webhook_events set created_at = $1", at.Add(-10*24*time.Hour))
	w.db.Exec(t, "update webhook_events set attempts = 9 where event_id = $1", tried)
	w.db.Exec(t, "update webhook_events set state = 'failed', queued = true, leased_until = $2 where event_id = $1", former, at.Add(-25*time.Hour))
	w.db.Exec(t, "update webhook_endpoints set paused_at = $2 where client_id = $1", paused.ID, at.Add(-5*24*time.Hour))
	w.attemptNow(t, tried)
	w.db.Exec(t, "update webhook_events set leased_until = null where event_id = $1", waits)
	if err := w.Sweep(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{tried, waits} {
		if state := w.event(t, id).State; state != Failed {
			t.Errorf("an event is %s", state)
		}
	}
	if queue, err := w.Queue(t.Context()); err != nil || queue.Failed != 2 {
		t.Errorf("%d events failed within a day, want 2: %v", queue.Failed, err)
	}
}

// An event that waits for its next attempt when its webhook is stopped, or its client offboarded, fails then without being sent; if its webhook
// is removed, it fails at once. Until then it does not count as late: nothing is left to do about its receiver.
func TestWaitingForNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := receive(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "86400")
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	clients := map[string]uuid.UUID{}
	for _, name := range []string{"removed", "stopped", "offboarded", "late"} {
		client := w.clientAt(t, nil, away.URL)
		clients[name] = client.ID
		w.db.Exec(t, "update clients set name = $2 where client_id = $1", client.ID, name)
		w.attemptNow(t, w.revoked(t, client))
	}
	w.db.Clock.Advance(2 * time.Hour)
	if err := w.RemoveEndpoint(t.Context(), clients["removed"]); err != nil {
		t.Fatal(err)
	}
	w.db.Exec(t, "update webhook_endpoints set stopped_at = connect_now() where client_id = $1", clients["stopped"])
	w.db.Exec(t, "update clients set status = 'offboarded' where client_id = $1", clients["offboarded"])
	stats, err := w.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		if isLate := s.Pending == 1 && s.Oldest > time.Hour; isLate != (s.Client == "late") || !isLate && s.Oldest != 0 {
			t.Errorf("%s: %d events wait, the oldest for %s", s.Client, s.Pending, s.Oldest)
		}
	}
	if queue, err := w.Queue(t.Context()); err != nil || queue.Waiting != 1 {
		t.Errorf("%d events wait, %v", queue.Waiting, err)
	}
}

// An event that waits when its webhook is removed has failed, and is not sent to the next webhook when its time comes. It can be sent again.
func TestRemovedWhileEventsWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, away := receive(t, nil), receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	client, disabled, another := w.clientAt(t, nil, away.URL), w.client(t, nil), w.client(t, nil)
	retry, held, foreign := w.revoked(t, client), w.revoked(t, disabled), w.revoked(t, another)
	w.db.Exec(t, "update clients set status = 'disabled' where client_id = $1", disabled.ID)
	w.attemptNow(t, retry)
	for _, id := range []uuid.UUID{client.ID, disabled.ID} {
		if err := w.RemoveEndpoint(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := w.SetEndpoint(t.Context(), id, r.URL); err != nil {
			t.Fatal(err)
		}
	}
	w.db.Exec(t, "update clients set status = 'active' where client_id = $1", disabled.ID)
	w.db.Clock.Advance(time.Hour)
	for id, want := range map[uuid.UUID]State{retry: Failed, held: Failed, foreign: Pending} {
		if got := w.event(t, id).State; got != want {
			t.Errorf("an event is %s, want %s", got, want)
		}
	}
	if events := w.claimed(t, nil); len(events) != 1 || events[0].ID != foreign {
		t.Errorf("%d events are due, want that of another client", len(events))
	}
	if err := w.Replay(t.Context(), retry); err != nil {
		t.Fatal(err)
	}
	w.attemptNow(t, retry)
	if event := w.event(t, retry); event.State != Delivered || len(r.all()) != 1 {
		t.Errorf("replayed: %s, with %d calls", event.State, len(r.all()))
	}
}

// The server that removes a webhook may be killed before the events that wait have failed. They are not sent to the next webhook either.
func TestRemovalThatWasBrokenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, another := w.client(t, nil), w.client(t, nil)
	left, foreign := w.revoked(t, client), w.revoked(t, another)
	for range 2 { // it was removed once, and the second time the answer is that there is none
		if _, err := w.queries.RemoveWebhookEndpoint(t.Context(), webhookdb.RemoveWebhookEndpointParams{ClientID: client.ID, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.RemoveEndpoint(t.Context(), client.ID); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("removed again: %v", err)
	}
	if _, err := w.SetEndpoint(t.Context(), client.ID, "https://127.0.0.1:1/"); err != nil {
		t.Fatal(err)
	}
	fresh := w.revoked(t, client)
	for id, want := range map[uuid.UUID]State{left: Failed, foreign: Pending, fresh: Pending} {
		if got := w.event(t, id).State; got != want {
			t.Errorf("an event is %s, want %s", got, want)
		}
	}
	if events := w.claimed(t, nil); len(events) != 2 {
		t.Errorf("%d events are due, want that of another client and the new one", len(events))
	}
}

// An event can be sent again for 30 days after its last attempt, which may come days after it was written.
func TestFailedAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, nil)
	late, long := w.revoked(t, client), w.revoked(t, client)
	at := w.db.Now()
	day := func(n int) time.Time { return at.Add(-time.Duration(n) * 24 * time.Hour) }
	for id, days := range map[uuid.UUID][2]int{late: {32, 29}, long: {34, 31}} {
		w.db.Exec(t, "update webhook_events set state = 'failed', attempts = 10, queued = true, created_at = $2, leased_until = $3 where event_id = $1",
			id, day(days[0]), day(days[1]))
	}
	if err := w.Sweep(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if err := w.Replay(t.Context(), late); err != nil {
		t.Errorf("29 days after the last attempt: %v", err)
	}
	if err := w.Replay(t.Context(), long); !errors.Is(err, ErrNoEvent) {
		t.Errorf("31 days after the last attempt: %v", err)
	}
}
