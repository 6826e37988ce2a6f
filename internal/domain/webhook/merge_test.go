package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// connect authorizes a client for a user since a day.
func (w *world) connect(t testing.TB, client pgtest.Client, scopes scope.Set, historyFrom string) (user, grant uuid.UUID) {
	t.Helper()
	user = w.db.User(t).ID
	grant = pgtest.Value[uuid.UUID](t, w.db, `insert into connections (user_id, client_id, grant_id, version, state, scopes,
			history_from, authorized_at, refresh_generation, refresh_hash, refresh_deadline)
		values ($1, $2, gen_random_uuid(), 7, 'authorized', $3, $4::text::date, connect_now(), 1, sha256('x'),
			connect_now() + interval '90 days')
		returning grant_id`, user, client.ID, int16(scopes), historyFrom)
	return user, grant
}

// steps is a change of a user's daily steps.
func (w *world) steps(t testing.TB, user uuid.UUID, date string, steps int) {
	t.Helper()
	w.db.Exec(t, `insert into daily_steps (user_id, date, steps) values ($1, $2::text::date, $3)
		on conflict (user_id, date) do update set steps = excluded.steps`, user, date, steps)
	w.changed(t, scope.DailySteps, date, user)
}

// changed notes a change on a date for everybody who is connected with a user, or with any, as the statement of the change
// does.
func (w *world) changed(t testing.TB, readers scope.Set, date string, users ...uuid.UUID) {
	t.Helper()
	w.db.Exec(t, `insert into webhook_changes (user_id, client_id, datasets, first_date, last_date)
		select user_id, client_id, scopes & $1::smallint, $2::text::date, $2::text::date from connections
		where (user_id = any ($3) or $3 is null) and history_from <= $2::text::date`, int16(readers), date, users)
}

// mergeAll merges what is due.
func (w *world) mergeAll(t testing.TB) (connections int) {
	t.Helper()
	for {
		n, err := w.merge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if connections += n; n == 0 {
			return connections
		}
	}
}

// updates are the events of a grant as text, oldest first.
func (w *world) updates(t testing.TB, grant uuid.UUID) (texts []string) {
	t.Helper()
	events, err := w.Events(t.Context(), Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if event.GrantID == grant {
			texts = append(texts, fmt.Sprintf("%s %d %s %s %s", event.Type, event.ConnectionVersion, event.Datasets,
				event.FirstDate.Format(time.DateOnly), event.LastDate.Format(time.DateOnly)))
		}
	}
	return texts
}

// Changes within the window become one event of the connection, with all datasets and the whole range, no day before
// history_from; what comes after the window is another event.
func TestMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, receive(t, nil))
	user, grant := w.connect(t, client, scope.All, "2026-11-10")
	w.steps(t, user, "2026-11-12", 100)
	w.db.Clock.Advance(30 * time.Second)
	w.changed(t, scope.CyclingDaily, "2026-11-20", user)
	if n := w.mergeAll(t); n != 0 {
		t.Errorf("%d connections before the window is over", n)
	}
	w.db.Clock.Advance(30 * time.Second)
	if n := w.mergeAll(t); n != 1 {
		t.Errorf("%d connections", n)
	}
	w.steps(t, user, "2026-11-09", 100) // not theirs
	w.steps(t, user, "2026-11-10", 100)
	w.db.Clock.Advance(time.Minute)
	w.mergeAll(t)
	want := "activity.updated 7 daily_steps:read cycling_daily:read 2026-11-12 2026-11-20, activity.updated 7 daily_steps:read 2026-11-10 2026-11-10"
	if got := strings.Join(w.updates(t, grant), ", "); got != want {
		t.Errorf("the events are\n%s, want\n%s", got, want)
	}
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_changes"); n != 0 {
		t.Errorf("%d changes are left", n)
	}
}

// With read replicas a change that they may not have yet is not told with an earlier one: the client would read without it, and hear of it no
// more. All changes within the window of the first one are told with it.
func TestMergeLeavesWhatReplicasMayLack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lag, w.window = 5*time.Second, time.Minute+5*time.Second
	user, grant := w.connect(t, w.client(t, receive(t, nil)), scope.All, "2026-11-10")
	w.steps(t, user, "2026-11-12", 100)
	w.db.Clock.Advance(59 * time.Second)
	w.steps(t, user, "2026-11-13", 100)
	w.db.Clock.Advance(4 * time.Second)
	w.steps(t, user, "2026-11-14", 100)
	w.mergeAll(t)
	if got := w.updates(t, grant); len(got) != 0 {
		t.Errorf("before replicas have the window: %v", got)
	}
	w.db.Clock.Advance(3 * time.Second)
	w.mergeAll(t)
	w.db.Clock.Advance(2 * time.Minute)
	w.mergeAll(t)
	want := "activity.updated 7 daily_steps:read 2026-11-12 2026-11-13, activity.updated 7 daily_steps:read 2026-11-14 2026-11-14"
	if got := strings.Join(w.updates(t, grant), ", "); got != want {
		t.Errorf("the events are\n%s, want\n%s", got, want)
	}
}

// A connection that changed while its changes waited is told what it may know then, or nothing.
func TestMergeAfterAChangeOfTheConnection(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change string // of the connection
		want   string
	}{
		"no change":             {"version = 7", "activity.updated 7 daily_steps:read 2026-11-12 2026-11-14"},
		"a new version":         {"version = 8", "activity.updated 8 daily_steps:read 2026-11-12 2026-11-14"},
		"a later history":       {"history_from = '2026-11-13'", "activity.updated 7 daily_steps:read 2026-11-13 2026-11-14"},
		"a history after it":    {"history_from = '2026-11-15'", ""},
		"another scope":         {"scopes = 2", ""},
		"revoked":               {"state = 'revoked', refresh_hash = null", ""},
		"disconnected":          {"state = 'disconnected', refresh_hash = null", ""},
		"lapsed":                {"refresh_deadline = connect_now()", ""},
		"lapsed within a while": {"refresh_deadline = connect_now() + interval '2 minutes'", "activity.updated 7 daily_steps:read 2026-11-12 2026-11-14"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			user, grant := w.connect(t, w.client(t, receive(t, nil)), scope.DailySteps, "2026-11-10")
			w.steps(t, user, "2026-11-12", 1)
			w.steps(t, user, "2026-11-14", 1)
			w.db.Exec(t, "update connections set "+tt.change)
			w.db.Clock.Advance(time.Minute)
			w.mergeAll(t)
			if got := strings.Join(w.updates(t, grant), ", "); got != tt.want {
				t.Errorf("the events are %q, want %q", got, tt.want)
			}
			if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_changes"); n != 0 {
				t.Errorf("%d changes are left", n)
			}
		})
	}
}

// A read of steps from a day before the user registered is refused as a whole, so no event of steps alone begins there. Cycling may be read from
// history_from on.
func TestMergeBeforeTheDayOfRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, grant := w.connect(t, w.client(t, receive(t, nil)), scope.All, "2026-11-10")
	w.db.Exec(t, "update users set registered_on = '2026-11-11'") // it was evening where the user is, and the app counts its days in UTC
	merged := func() {
		t.Helper()
		w.db.Clock.Advance(time.Minute)
		if n := w.mergeAll(t); n != 1 {
			t.Errorf("%d connections", n)
		}
	}
	w.steps(t, user, "2026-11-10", 100)
	merged()
	if got := w.updates(t, grant); len(got) > 0 {
		t.Errorf("steps that nobody may read are told: %q", got)
	}
	w.steps(t, user, "2026-11-10", 200)
	w.steps(t, user, "2026-11-12", 100)
	merged()
	w.steps(t, user, "2026-11-11", 100)
	w.changed(t, scope.CyclingDaily|scope.CyclingActivities, "2026-11-10", user)
	merged()
	got := w.updates(t, grant)
	slices.Sort(got)
	want := []string{
		"activity.updated 7 daily_steps:read 2026-11-12 2026-11-12",
		"activity.updated 7 daily_steps:read cycling_daily:read cycling_activities:read 2026-11-10 2026-11-11",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// An endpoint that was stopped or removed meanwhile is told nothing.
func TestMergeWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stopped, removed := w.client(t, receive(t, nil)), w.client(t, receive(t, nil))
	one, _ := w.connect(t, stopped, scope.All, "2026-11-10")
	other, _ := w.connect(t, removed, scope.All, "2026-11-10")
	w.steps(t, one, "2026-11-12", 1)
	w.steps(t, other, "2026-11-12", 1)
	w.db.Exec(t, "update webhook_endpoints set stopped_at = connect_now() where client_id = $1", stopped.ID)
	if err := w.RemoveEndpoint(t.Context(), removed.ID); err != nil {
		t.Fatal(err)
	}
	w.db.Clock.Advance(time.Minute)
	if n := w.mergeAll(t); n != 2 {
		t.Errorf("%d connections", n)
	}
	if events, err := w.Events(t.Context(), Filter{Limit: 10}); err != nil || len(events) != 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// connectMany authorizes a client for that many new users.
func (w *world) connectMany(t testing.TB, client pgtest.Client, users int) {
	t.Helper()
	w.db.Exec(t, `with u as (
			insert into users (user_id, email, timezone, registered_on, created_at)
			select gen_random_uuid(), 'u' || i || '@users.example', 'UTC', '2020-01-01', connect_now() from generate_series(1, $2) as i
			returning user_id
		), c as (
			insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline)
			select user_id, $1, gen_random_uuid(), 1, 'authorized', 1, '2026-01-01', connect_now(), 1, sha256('x'),
				connect_now() + interval '90 days' from u
		) select`, client.ID, users)
}

// The changes of many connections are taken in parts: a large import is spread.
func TestMergeIsSpread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, receive(t, nil))
	w.connectMany(t, client, 1200)
	w.changed(t, scope.DailySteps, "2026-11-12")
	w.changed(t, scope.DailySteps, "2026-11-12")
	w.db.Clock.Advance(time.Minute)
	var parts []int
	for range 4 {
		n, err := w.merge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, n)
	}
	if fmt.Sprint(parts) != "[500 500 200 0]" {
		t.Errorf("the parts are %v", parts)
	}
	if n := pgtest.Value[int](t, w.db, "select count(distinct grant_id)::int from webhook_events"); n != 1200 {
		t.Errorf("%d connections are told", n)
	}
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_events"); n != 1200 {
		t.Errorf("%d events", n)
	}
}

// The whole way: a change, the window, the queue, a call.
func TestChangeIsDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	user, grant := w.connect(t, w.client(t, r), scope.All, "2026-11-10")
	w.steps(t, user, "2026-11-12", 100)
	w.db.Clock.Advance(time.Minute)
	w.run(t)
	c := r.next(t)
	for _, part := range []string{`"type":"activity.updated"`, grant.String(), `"datasets":["daily_steps"]`, `"from":"2026-11-12"`, `"to":"2026-11-12"`, `"connection_version":"7"`} {
		if !strings.Contains(string(c.body), part) {
			t.Errorf("%s is not in %s", part, c.body)
		}
	}
}

// A clock that is wrong, before a server has noticed, loses no change: neither one that waits, nor one that is dated by that clock.
func TestMergeWhileTheClockIsWrong(t *testing.T) {
	pgtest.NotOnCluster(t, "its clock is that of each node")
	t.Parallel()
	w := newWorld(t)
	w.db.Jump(t, 0)
	w.pool.Clock().Believe(0)
	client := w.client(t, nil)
	user, grant := w.connect(t, client, scope.All, "2026-11-10")
	w.steps(t, user, "2026-11-10", 1)
	w.db.Clock.Advance(w.window)
	w.db.Jump(t, 401*24*time.Hour) // the connection has lapsed by this clock
	if n, err := w.merge(t.Context()); err != nil || n != 0 {
		t.Errorf("while the clock is ahead, %d connections are merged, %v", n, err)
	}
	another, ahead := w.connect(t, client, scope.All, "2026-11-10")
	w.steps(t, another, "2026-11-10", 1)
	w.db.Jump(t, 0)
	if work, err := w.look(t.Context(), nil, 0, 10); err != nil || len(work) == 0 {
		t.Errorf("no change is due: %v", err)
	}
	w.mergeAll(t)
	if work, err := w.look(t.Context(), nil, 0, 10); err != nil || len(work) > 0 {
		t.Errorf("changes still wait: %v", err)
	}
	for _, grant := range []uuid.UUID{grant, ahead} {
		if got := w.updates(t, grant); len(got) != 1 {
			t.Errorf("a change makes the events %q", got)
		}
	}
}

// An event that is replayed while the clock is ahead is due when the clock is right.
func TestReplayWhileTheClockIsWrong(t *testing.T) {
	pgtest.NotOnCluster(t, "its clock is that of each node")
	t.Parallel()
	w := newWorld(t)
	w.db.Jump(t, 0)
	w.pool.Clock().Believe(0)
	client := w.client(t, nil)
	id := w.revoked(t, client)
	w.taken(t)
	w.db.Exec(t, "update webhook_events set state = 'failed'")
	w.db.Jump(t, 401*24*time.Hour)
	if err := w.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.db.Jump(t, 0)
	if got := w.claimed(t, nil); len(got) != 1 {
		t.Errorf("%d events are due", len(got))
	}
}
