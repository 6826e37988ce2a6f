package webhook

import (
	"testing"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Of two servers that found the same event one leases it.
func TestClaimOfTwoServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := w.event(t, w.revoked(t, w.client(t, nil)))
	for n, want := range []int{1, 0} {
		got, err := w.queries.ClaimWebhookEvents(t.Context(), webhookdb.ClaimWebhookEventsParams{
			UserIds: []uuid.UUID{event.userID}, EventIds: []uuid.UUID{event.ID}, Lease: time.Minute,
		})
		if err != nil || len(got) != want {
			t.Errorf("server %d leases %d events, %v", n, len(got), err)
		}
	}
}

// A server that merges what another one has just merged leaves what was noted since: its window is not over.
func TestMergeOfTwoServers(t *testing.T) {
	pgtest.NotOnCluster(t, "a lock on another node is not seen")
	t.Parallel()
	w := newWorld(t)
	user, grant := w.connect(t, w.client(t, nil), scope.All, "2026-11-10")
	w.steps(t, user, "2026-11-12", 1)
	w.db.Clock.Advance(time.Minute)
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if n, err := w.queries.WithTx(tx).MergeWebhookChanges(t.Context(), webhookdb.MergeWebhookChangesParams{
		UserIds: []uuid.UUID{user}, WindowLength: w.window,
	}); err != nil || n != 1 {
		t.Fatalf("%d connections, %v", n, err)
	}
	w.steps(t, user, "2026-11-13", 1)
	merged := make(chan int)
	go func() {
		n, err := w.merge(t.Context())
		if err != nil {
			t.Error(err)
		}
		merged <- n
	}()
	wait.Until(t, "the other server waits", func() bool { return w.db.Waiting(t) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-merged; n != 0 || len(w.updates(t, grant)) != 1 {
		t.Errorf("the other server merges %d connections; the events are %q", n, w.updates(t, grant))
	}
}

// Events that programs of 1.0.0 have queued, and not leased, are sent when they are due there.
func TestQueueOfOlderPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, nil)
	due, later, theirs := w.revoked(t, client), w.revoked(t, client), w.revoked(t, client)
	gone := uuid.New()
	for id, at := range map[uuid.UUID]time.Duration{due: 0, later: time.Hour, theirs: 0, gone: 0} {
		var user uuid.UUID
		if id != gone {
			user = w.event(t, id).userID
			w.db.Exec(t, "update webhook_events set queued = true where user_id = $1", user)
		}
		w.db.Exec(t, `insert into webhook_queue (event_id, user_id, client_id, created_at, next_attempt_at, leased_until)
			values ($1, $2, $3, connect_now(), connect_now() + $4::interval, case when $5 then connect_now() + interval '1 hour' end)`,
			id, user, client.ID, at, id == theirs)
	}
	claims := func(want ...uuid.UUID) {
		t.Helper()
		got := w.claimed(t, nil)
		if len(got) != len(want) || len(got) == 1 && got[0].ID != want[0] {
			t.Errorf("%d events are leased, want %v", len(got), want)
		}
	}
	claims()
	if err := w.Sweep(t.Context(), w.db.Now()); err != nil {
		t.Fatal(err)
	}
	claims(due)
	w.db.Clock.Advance(time.Hour)
	claims(later)
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_queue"); n != 1 {
		t.Errorf("%d events are in the queue", n)
	}
}

// After a downgrade, programs of 1.0.0 find what this one has tried as new events, and nothing else.
func TestDowngrade(t *testing.T) {
	pgtest.NotOnCluster(t, "the test's clock is a function that a migration does not know")
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, nil)
	tried, done, theirs := w.revoked(t, client), w.revoked(t, client), w.revoked(t, client)
	w.db.Exec(t, "update webhook_events set queued = true, leased_until = now() where event_id = $1", tried)
	w.db.Exec(t, "update webhook_events set queued = true, leased_until = now(), state = 'delivered' where event_id = $1", done)
	w.db.Exec(t, "update webhook_events set queued = true where event_id = $1", theirs)
	if _, err := migrate.Apply(t.Context(), w.db.URL, 11); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[[]uuid.UUID](t, w.db, "select array_agg(event_id) from webhook_events where not queued"); len(got) != 1 || got[0] != tried {
		t.Errorf("%v are new", got)
	}
}
