package webhook

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// While a webhook is paused its events wait, and others' do not. When it is resumed they are sent, the oldest first.
func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, other := receive(t, nil), receive(t, nil)
	client, another := w.client(t, r), w.client(t, other)
	w.db.Exec(t, "update clients set webhook_parallel = 1")
	ctx := work.WithActor(t.Context(), "ada")
	for range 2 { // the second time nothing changes
		if paused, err := w.Pause(ctx, client.ID); err != nil || paused.PausedAt.IsZero() {
			t.Fatalf("paused: %+v, %v", paused, err)
		}
	}
	var want []string
	retry := w.revoked(t, client)
	w.db.Exec(t, "update webhook_events set ready = null, due_at = $2, attempts = 1, queued = true, leased_until = now() where event_id = $1", retry, w.db.Now())
	for range 3 {
		want = append(want, messageID(w.revoked(t, client)))
	}
	if events, _, err := w.claim(t.Context(), nil, maxHeld); err != nil || len(events) > 0 {
		t.Errorf("while it is paused %d events are leased, %v", len(events), err)
	}
	if _, due, err := w.claim(t.Context(), nil, maxHeld); err != nil || due {
		t.Errorf("a server that polls finds work: %t, %v", due, err)
	}
	if queue, err := w.Queue(t.Context()); err != nil || queue.Waiting != 0 {
		t.Errorf("what waits for paused webhooks counts as late: %+v, %v", queue, err)
	}
	if stats, err := w.Stats(t.Context()); err != nil || slices.ContainsFunc(stats, func(s Stats) bool { return s.Pending > 0 }) {
		t.Errorf("what waits for paused webhooks counts as pending: %+v, %v", stats, err)
	}
	if waiting, _, err := w.Waiting(t.Context(), client.ID); err != nil || waiting != 4 {
		t.Errorf("%d events wait, %v", waiting, err)
	}
	if sample, err := w.SendSample(t.Context(), client.ID, ActivityUpdated); err != nil || !sample.Success() {
		t.Errorf("a sample: %+v, %v", sample, err)
	}
	r.next(t)

	w.run(t)
	w.revoked(t, another)
	w.Wake()
	other.next(t)
	if calls := r.all(); len(calls) != 1 {
		t.Errorf("%d calls while it is paused", len(calls))
	}
	for range 2 {
		if resumed, err := w.Resume(ctx, client.ID); err != nil || !resumed.PausedAt.IsZero() {
			t.Fatalf("resumed: %+v, %v", resumed, err)
		}
	}
	want = append(want, messageID(retry))
	var got []string
	for range want {
		got = append(got, r.next(t).id)
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if acts := pgtest.Value[string](t, w.db, "select string_agg(actor || ' ' || action, ', ' order by id) from audit_log where action in ('webhook.paused', 'webhook.resumed')"); acts != "ada webhook.paused, ada webhook.resumed" {
		t.Errorf("the log has %s", acts)
	}
	for _, act := range []error{second(w.Pause(ctx, uuid.New())), second(w.Resume(ctx, uuid.New()))} {
		if !errors.Is(act, ErrNoEndpoint) {
			t.Errorf("a client without a webhook: %v", act)
		}
	}
}

// An event that has waited for a paused webhook for four days has failed, unless it was replayed since.
func TestLongPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, another := w.client(t, nil), w.client(t, nil)
	old, replayed, foreign := w.revoked(t, client), w.revoked(t, client), w.revoked(t, another)
	w.db.Exec(t, "update webhook_events set created_at = $1", w.db.Now().Add(-5*24*time.Hour))
	if _, err := w.Pause(t.Context(), client.ID); err != nil {
		t.Fatal(err)
	}
	var settled []uuid.UUID
	w.settled = func(client uuid.UUID, delivered bool) {
		if !delivered {
			settled = append(settled, client)
		}
	}
	states := func(want ...State) {
		t.Helper()
		if err := w.Sweep(t.Context(), w.db.Now()); err != nil {
			t.Fatal(err)
		}
		for i, id := range []uuid.UUID{old, replayed, foreign}[:len(want)] {
			if got := w.event(t, id).State; got != want[i] {
				t.Errorf("event %d is %s, want %s", i, got, want[i])
			}
		}
	}
	states(Pending, Pending, Pending) // it is paused for a moment
	w.db.Clock.Advance(pauseLimit + time.Minute)
	fresh := w.revoked(t, client)
	w.db.Exec(t, "update webhook_events set queued = true, leased_until = $2 where event_id = $1", replayed, w.db.Now())
	states(Failed, Pending, Pending)
	if got := w.event(t, fresh).State; got != Pending || !slices.Equal(settled, []uuid.UUID{client.ID}) {
		t.Errorf("the new one is %s, and the failed ones are of %v", got, settled)
	}
	if err := w.Replay(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if got := w.event(t, old).State; got != Pending {
		t.Errorf("replayed: %s", got)
	}
}

// While a client is disabled nothing is sent to it, not even what a server leased at that moment. Its events wait, and are sent when it is
// enabled.
func TestDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, other := receive(t, nil), receive(t, nil)
	client, another := w.client(t, r), w.client(t, other)
	old, taken, fresh := w.revoked(t, client), w.revoked(t, client), w.revoked(t, client)
	w.db.Exec(t, "update webhook_events set created_at = $2 where event_id = $1", old, w.db.Now().Add(-5*24*time.Hour))
	w.db.Exec(t, "update webhook_events set attempts = 1, queued = true, leased_until = now() where event_id = $1", old)
	set := func(status string) {
		t.Helper()
		w.db.Exec(t, "update clients set status = $2 where client_id = $1", client.ID, status)
	}
	set("disabled")
	if err := w.leases().Do(t.Context(), w.toSend(t, w.event(t, taken)), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context(), w.db.Now()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{old, taken, fresh} {
		if event := w.event(t, id); event.State != Pending {
			t.Errorf("an event of a disabled client is %s", event.State)
		}
	}
	if events, due, err := w.claim(t.Context(), nil, maxHeld); err != nil || due || len(events) > 0 {
		t.Errorf("%d events of a disabled client are leased, %t, %v", len(events), due, err)
	}
	if queue, err := w.Queue(t.Context()); err != nil || queue.Waiting != 0 {
		t.Errorf("what waits for a disabled client counts as late: %+v, %v", queue, err)
	}
	if stats, err := w.Stats(t.Context()); err != nil || slices.ContainsFunc(stats, func(s Stats) bool { return s.Pending > 0 }) {
		t.Errorf("what waits for a disabled client counts as pending: %+v, %v", stats, err)
	}
	if waiting, _, err := w.Waiting(t.Context(), client.ID); err != nil || waiting != 3 {
		t.Errorf("%d events wait, %v", waiting, err)
	}

	w.run(t)
	w.revoked(t, another)
	w.Wake()
	other.next(t)
	if calls := r.all(); len(calls) != 0 {
		t.Errorf("%d calls while it is disabled", len(calls))
	}
	set("active")
	w.Wake()
	for range 3 {
		r.next(t)
	}
}

// An event that has waited for a disabled client for four days has failed, also if its webhook was removed meanwhile.
func TestLongDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, without, another := w.client(t, nil), w.client(t, nil), w.client(t, nil)
	old, removed, foreign := w.revoked(t, client), w.revoked(t, without), w.revoked(t, another)
	w.db.Exec(t, "update clients set status = 'disabled' where client_id = any ($1)", []uuid.UUID{client.ID, without.ID})
	if err := w.RemoveEndpoint(t.Context(), without.ID); err != nil {
		t.Fatal(err)
	}
	w.db.Clock.Advance(pauseLimit + time.Minute)
	fresh := w.revoked(t, client)
	if err := w.Sweep(t.Context(), w.db.Now()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uuid.UUID]State{old: Failed, removed: Failed, foreign: Pending, fresh: Pending} {
		if got := w.event(t, id).State; got != want {
			t.Errorf("an event is %s, want %s", got, want)
		}
	}
}

// An event waits for a paused webhook no longer when its client is offboarded or its receiver has answered 410: it fails without being sent.
func TestPausedForNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	offboarded, stopped := w.client(t, r), w.client(t, r)
	ids := []uuid.UUID{w.revoked(t, offboarded), w.revoked(t, stopped)}
	for _, client := range []pgtest.Client{offboarded, stopped} {
		if _, err := w.Pause(t.Context(), client.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.db.Exec(t, "update clients set status = 'offboarded' where client_id = $1", offboarded.ID)
	w.db.Exec(t, "update webhook_endpoints set stopped_at = connect_now() where client_id = $1", stopped.ID)
	for _, event := range w.claimed(t, nil) {
		if err := w.leases().Do(t.Context(), event, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if event := w.event(t, id); event.State != Failed {
			t.Errorf("an event is %s", event.State)
		}
	}
	if calls := r.all(); len(calls) > 0 {
		t.Errorf("%d calls", len(calls))
	}
}
