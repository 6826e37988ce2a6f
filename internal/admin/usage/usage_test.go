package usage

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// start is when the clock of a test begins.
var start = time.Date(2026, 3, 10, 12, 30, 20, 0, time.UTC)

func newUsage(t *testing.T) (*Usage, *pgtest.DB, *bytes.Buffer) {
	t.Helper()
	db := pgtest.New(t)
	db.StartAt(t, start)
	var log bytes.Buffer
	return patient(db, slog.New(slog.NewTextHandler(&log, nil))), db, &log
}

// beside is another server on the same database.
func beside(u *Usage, db *pgtest.DB) *Usage { return patient(db, u.logger) }

func patient(db *pgtest.DB, logger *slog.Logger) *Usage {
	return New(db.Pool, wait.Patient, logger, db.Now)
}

// The counts of several servers add up to one report, hour by hour.
func TestServersAddUp(t *testing.T) {
	t.Parallel()
	one, db, log := newUsage(t)
	two := beside(one, db)
	client, other := db.Client(t), db.Client(t)
	ask := func(u *Usage, operation string, status int, took time.Duration, charged bool) {
		u.Count(Request{client.ID, operation, status, took, charged})
	}
	for range 3 {
		ask(one, "readDailyActivity", 200, 8*time.Millisecond, true)
		ask(two, "readDailyActivity", 200, 8*time.Millisecond, true)
		ask(two, "readDailyActivity", 429, 2*time.Millisecond, false)
	}
	one.rows.Flush(t.Context())
	two.rows.Flush(t.Context())
	db.Clock.Advance(time.Hour)
	ask(one, "readDailyActivity", 503, time.Minute, false)
	ask(one, "requestToken", 400, 30*time.Millisecond, false)
	one.Count(Request{ClientID: other.ID, Operation: "requestToken", Status: 200})
	one.rows.Flush(t.Context())
	one.rows.Flush(t.Context()) // nothing is left to be written twice

	got, err := one.Of(t.Context(), client.ID, start.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := Report{
		ClientID: client.ID, Name: "Example Partner", Status: "active", RequestsPerMinute: 600,
		Since: time.Date(2026, 3, 10, 11, 0, 0, 0, time.UTC), Until: got.Until,
		Total: Figures{Requests: 11, RateLimited: 3, Refused: 1, Failed: 1},
		Operations: []Operation{
			{"readDailyActivity", Figures{Requests: 10, RateLimited: 3, Failed: 1},
				[]Figures{{}, {Requests: 9, RateLimited: 3}, {Requests: 1, Failed: 1}}},
			{"requestToken", Figures{Requests: 1, Refused: 1}, []Figures{{}, {}, {Requests: 1, Refused: 1}}},
		},
		Hours: []Hour{
			{Start: time.Date(2026, 3, 10, 11, 0, 0, 0, time.UTC)},
			{time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC), Figures{Requests: 9, RateLimited: 3}, 6, 6},
			{time.Date(2026, 3, 10, 13, 0, 0, 0, time.UTC), Figures{Requests: 2, Refused: 1, Failed: 1}, 0, 0},
		},
		Charged: 6, BusiestMinute: 6,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Figures{}, Report{})); diff != "" {
		t.Error(diff)
	}
	if p50, p99 := got.Total.Quantile(.5), got.Total.Quantile(.99); p50 < 5*time.Millisecond || p50 > 10*time.Millisecond || p99 != 10*time.Second {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	if _, err := one.Of(t.Context(), uuid.New(), start); err != refusal.ErrClientNotFound {
		t.Errorf("an unknown client: %v", err)
	}
	if log.Len() != 0 {
		t.Errorf("the log: %s", log)
	}
}

// A database that was restored may lack a client whose access tokens are still presented. Its requests keep no other client's from being written.
func TestCountsOfUnknownClients(t *testing.T) {
	t.Parallel()
	u, db, log := newUsage(t)
	client := db.Client(t).ID
	for range 2 {
		u.Count(Request{ClientID: uuid.New(), Operation: "readDailyActivity", Status: 401})
		u.Count(Request{ClientID: client, Operation: "readDailyActivity", Status: 200, Charged: true})
		if !u.rows.Flush(t.Context()) {
			t.Errorf("not written: %s", log)
		}
	}
	if waiting, _ := u.Waiting(); waiting != 0 {
		t.Errorf("%d rows wait", waiting)
	}
	report, err := u.Of(t.Context(), client, start.Add(-time.Hour))
	if err != nil || report.Total.Requests != 2 || report.Charged != 2 {
		t.Errorf("%d requests, %d charged, want 2 of each: %v", report.Total.Requests, report.Charged, err)
	}
}

// Servers that write the same rows at the same time neither lose one nor lock each other up.
func TestManyServersAtOnce(t *testing.T) {
	t.Parallel()
	first, db, log := newUsage(t)
	clients := []uuid.UUID{db.Client(t).ID, db.Client(t).ID, db.Client(t).ID}
	var servers sync.WaitGroup
	for range 4 {
		server := beside(first, db)
		servers.Go(func() {
			for range 20 {
				for i := range 100 {
					server.Count(Request{clients[i%3], []string{"a", "b"}[i%2], 200 + i%5, time.Millisecond, true})
				}
				server.rows.Flush(t.Context())
			}
		})
	}
	servers.Wait()
	if n := pgtest.Value[int64](t, db, "select sum(requests)::bigint from usage_hours"); n != 4*20*100 {
		t.Errorf("%d requests were counted, want %d; log: %s", n, 4*20*100, log)
	}
	if n := pgtest.Value[int64](t, db, "select sum(charged)::bigint from usage_minutes"); n != 4*20*100 {
		t.Errorf("%d requests were charged, want %d; log: %s", n, 4*20*100, log)
	}
}

// While servers are upgraded, a newer one may store more buckets than this program knows.
func TestBucketsOfANewerServer(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t)
	u.Count(Request{ClientID: client.ID, Operation: "requestToken", Status: 200})
	u.rows.Flush(t.Context())
	db.Exec(t, "update usage_hours set requests = requests + 2, durations = durations || array[0, 2]::bigint[]")
	report, err := u.Of(t.Context(), client.ID, start)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := u.Clients(t.Context(), Ranking{}, start, page.Key{}, 10)
	if err != nil || len(all) != 1 || all[0].Total != report.Total {
		t.Errorf("the list: %+v, %v; want %+v", all, err, report.Total)
	}
	if p99 := report.Total.Quantile(.99); report.Total.Requests != 3 || p99 != 10*time.Second {
		t.Errorf("%d requests, p99 %v; want 3 and 10 s, the longest that this program tells apart", report.Total.Requests, p99)
	}
}

// When the service stops, what is left is written.
func TestRunWritesWhatIsLeft(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	u.Count(Request{ClientID: db.Client(t).ID, Operation: "requestToken", Status: 200})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	u.Run(ctx)
	if n := pgtest.Value[int64](t, db, "select count(*) from usage_hours"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// While the database is away counts wait, as many as may, and the log says what was lost.
func TestCountsWaitWithinBounds(t *testing.T) {
	t.Parallel()
	u, db, log := newUsage(t)
	client := db.Client(t)
	db.Exec(t, "alter table usage_hours rename to away")
	for i := range maxRows + 7 {
		u.Count(Request{ClientID: client.ID, Operation: "requestToken", Status: 200})
		if i < maxRows {
			db.Clock.Advance(time.Minute) // another row
		}
	}
	u.rows.Flush(t.Context())
	if !strings.Contains(log.String(), "lost=7") || !strings.Contains(log.String(), "counts of usage could not be written") {
		t.Errorf("the log: %s", log)
	}
	if rows, dropped := u.Waiting(); rows != maxRows || dropped != 7 {
		t.Errorf("after the failure %d rows wait, want %d; %d requests are dropped", rows, maxRows, dropped)
	}
	db.Exec(t, "alter table away rename to usage_hours")
	u.rows.Flush(t.Context())
	if n := pgtest.Value[int64](t, db, "select sum(requests)::bigint from usage_hours"); n != maxRows {
		t.Errorf("%d requests are written", n)
	}
}

// An hour is kept as long as anything in it is younger than 35 days.
func TestSweep(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t)
	count := func() {
		u.Count(Request{ClientID: client.ID, Operation: "requestToken", Status: 200})
		u.rows.Flush(t.Context())
	}
	count()
	db.Clock.Advance(24 * time.Hour)
	count()
	const day = 24 * time.Hour
	for _, step := range []struct {
		after time.Duration // the first
		want  int64
	}{{34 * day, 2}, {35*day - time.Minute, 2}, {35*day + time.Hour, 1}, {36*day + time.Hour, 0}} {
		db.SetTime(start.Add(step.after))
		if err := u.Sweep(t.Context(), db.Now()); err != nil {
			t.Fatal(err)
		}
		if n := pgtest.Value[int64](t, db, "select count(*) from usage_hours"); n != step.want {
			t.Errorf("after %s %d rows are left, want %d", step.after, n, step.want)
		}
	}
}

// The first hour of the longest report is whole, although its beginning is older than what is kept.
func TestSweepLeavesWholeHours(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t)
	u.Count(Request{ClientID: client.ID, Operation: "readDailyActivity", Status: 200, Charged: true})
	u.rows.Flush(t.Context())
	db.Clock.Advance(retention + 20*time.Minute)
	if err := u.Sweep(t.Context(), db.Now()); err != nil {
		t.Fatal(err)
	}
	report, err := u.Of(t.Context(), client.ID, db.Now().Add(-retention))
	if err != nil || report.Hours[0].Requests != 1 || report.Hours[0].BusiestMinute != 1 || report.Charged != 1 {
		t.Errorf("%+v, %d charged of %d: %v", report.Hours[0], report.Charged, report.Total.Requests, err)
	}
}

// insertConnections gives a client as many connections as there are states.
func insertConnections(t *testing.T, db *pgtest.DB, client uuid.UUID, states ...string) {
	t.Helper()
	db.Exec(t, `with made as (
			insert into users (user_id, email, timezone, registered_on, created_at)
			select gen_random_uuid(), gen_random_uuid() || '@user.example', 'UTC', '2020-01-01', connect_now()
			from generate_series(1, cardinality($2::text[])) returning user_id
		)
		insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
			refresh_generation, refresh_hash, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 1, replace(state, 'lapsed', 'authorized'), 1, '2026-03-01', connect_now(), 1,
			case when state in ('authorized', 'lapsed') then sha256('') end,
			connect_now() + case when state = 'lapsed' then interval '0' else interval '1 day' end
		from (select user_id, row_number() over () n from made) u
		join unnest($2::text[]) with ordinality s (state, n) using (n)`, client, states)
}

// Specification 2.2: by state. Those of a client with very many are as of the last fold, and a report says so.
func TestConnectionsByState(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	few, many := db.Client(t).ID, db.Client(t).ID
	insertConnections(t, db, few, "authorized", "authorized", "revoked", "disconnected", "lapsed")
	insertConnections(t, db, many, slices.Concat(slices.Repeat([]string{"authorized"}, 30), slices.Repeat([]string{"lapsed"}, 10))...)
	count := func(client uuid.UUID) Connections {
		t.Helper()
		counted, err := u.Connections(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return counted
	}
	if diff := cmp.Diff(Connections{Authorized: 2, Lapsed: 1, Revoked: 1, Disconnected: 1}, count(few)); diff != "" {
		t.Error("few:", diff)
	}
	u.exact = 39
	if c := count(many); c.Precision != AtLeast || c.Sum() != 40 {
		t.Errorf("many, before the first fold: %+v", c)
	}
	if err := u.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := count(many); c.At.IsZero() || c != (Connections{Authorized: 30, Lapsed: 10, Precision: Estimated, At: c.At}) {
		t.Errorf("many, after a fold: %+v", c)
	}
	insertConnections(t, db, few, "authorized")
	if c := count(few); c.Precision != Exact || c.Authorized != 3 {
		t.Errorf("few, after a fold: %+v", c)
	}

	// Somebody who holds the table holds the report up no longer than the limit.
	u.countTimeout = 20 * time.Millisecond
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "lock table connections"); err != nil {
		t.Fatal(err)
	}
	if c := count(few); c.Precision != Estimated || c.Authorized != 2 {
		t.Errorf("with the table locked: %+v", c)
	}
	if c := count(db.Client(t).ID); c != (Connections{Precision: Unknown}) {
		t.Errorf("with the table locked, of a new client: %+v", c)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	counted := func(took ...time.Duration) (f Figures) {
		for _, d := range took {
			f.count(200, bucket(d), 1)
		}
		return f
	}
	ms := time.Millisecond
	for name, test := range map[string]struct {
		figures  Figures
		p50, p99 time.Duration
	}{
		"none":             {counted(), 0, 0},
		"on a bound":       {counted(ms), ms, ms},
		"half of a bucket": {counted(20*ms, 20*ms), 17500 * time.Microsecond, 25 * ms},
		"over buckets":     {counted(ms, ms, ms, 80*ms), 666667, 100 * ms},
		"beyond the last":  {counted(time.Minute), 10 * time.Second, 10 * time.Second},
	} {
		if p50, p99 := test.figures.Quantile(.5), test.figures.Quantile(.99); math.Abs(float64(p50-test.p50)) > 1 || p99 != test.p99 {
			t.Errorf("%s: p50 %v, want %v; p99 %v, want %v", name, p50, test.p50, p99, test.p99)
		}
	}
	report := Report{RequestsPerMinute: 60, Since: start, Until: start.Add(time.Hour), Charged: 900, BusiestMinute: 90}
	if report.BudgetUsed() != .25 || report.PeakBudgetUsed() != 1.5 {
		t.Errorf("budget used %v, in the busiest minute %v", report.BudgetUsed(), report.PeakBudgetUsed())
	}
}
