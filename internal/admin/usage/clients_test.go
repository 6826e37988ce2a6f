package usage

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// metricsOfWorld is how many metrics each day has in world.
const metricsOfWorld = 6

// world makes partners with figures of as many days, one connection each, and a million requests of the first one.
func world(t testing.TB, db *pgtest.DB, partners, days int) {
	t.Helper()
	db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads,
			contact_email, created_at)
		select md5('client ' || n)::uuid, 'Partner ' || n, 'https://p.example/cb', 7, sha256('x'), 600, 60, 10, 'team@p' || n || '.example',
			connect_now() - n * interval '1 minute'
		from generate_series(1, $1::int) n`, partners)
	db.Exec(t, `insert into usage_days (client_id, day, metric, n)
		select md5('client ' || n)::uuid, ((connect_now() at time zone 'UTC')::date - d), metric, figure
		from generate_series(1, $1::int) n, generate_series(0, $2::int - 1) d, lateral (values ('requests', n % 1000), ('rate_limited', n % 7),
			('failed', n % 3), ('within_5ms', n % 1000), ('busiest_minute', n % 600), ('now_authorized', n)) figures (metric, figure)`, partners, days)
	db.Exec(t, "update usage_folds set counted_until = connect_now()")
	db.Exec(t, "vacuum analyze clients")
	db.Exec(t, "vacuum analyze usage_days")
}

// The list of partners asks three statements for a page, however many there are, and reads of each partner only the days that it shows.
func TestListOfManyClients(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	db := pgtest.New(t)
	const partners = 10_000
	world(t, db, partners, 10)
	sent := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	u := New(pool, wait.Patient, nil, db.Now)
	list := func(ranking Ranking, after page.Key, limit int) []Report {
		t.Helper()
		*sent = nil
		rows, err := u.Clients(t.Context(), ranking, db.Now(), after, limit)
		if err != nil || len(*sent) != 3 {
			t.Fatalf("%d statements, %v", len(*sent), err)
		}
		return rows
	}
	for ranking, want := range map[*Ranking]struct {
		clients int
		inOrder func(before, next Report) bool
	}{
		{}:                                {partners, func(before, next Report) bool { return before.Total.Requests >= next.Total.Requests }},
		{Order: byFailures}:               {partners, func(before, next Report) bool { return before.Total.Failed >= next.Total.Failed }},
		{Order: byLimited}:                {partners, func(before, next Report) bool { return before.Total.RateLimited >= next.Total.RateLimited }},
		{Order: byName}:                   {partners, func(before, next Report) bool { return before.Name <= next.Name }},
		{Order: byLimited, Failing: true}: {partners - partners/3, func(before, next Report) bool { return before.Total.RateLimited >= next.Total.RateLimited }},
		{Order: byName, Failing: true}:    {partners - partners/3, func(before, next Report) bool { return before.Name <= next.Name && next.Total.Failed > 0 }},
		{Order: byFailures, Failing: true}: {partners - partners/3, func(before, next Report) bool {
			return before.Total.Failed >= next.Total.Failed && next.Total.Failed > 0
		}},
	} {
		listed := map[uuid.UUID]bool{}
		var before *Report
		for after := (page.Key{}); ; {
			rows := list(*ranking, after, 3000)
			if len(rows) == 0 {
				break
			}
			for _, row := range rows {
				if before != nil && !want.inOrder(*before, row) || listed[row.ClientID] {
					t.Fatalf("%+v: %+v after %+v", ranking, row, before)
				}
				before, listed[row.ClientID] = &row, true
			}
			after = rows[len(rows)-1].Key()
		}
		if len(listed) != want.clients {
			t.Errorf("%+v: %d clients, want %d", ranking, len(listed), want.clients)
		}
	}

	seven := list(Ranking{Found: []uuid.UUID{pgtest.Value[uuid.UUID](t, db, "select client_id from clients where name = 'Partner 7777'")}}, page.Key{}, 50)
	if len(seven) != 1 || seven[0].Total.Requests != 777 || seven[0].Total.Failed != 1 || seven[0].BusiestMinute != 577 ||
		seven[0].Connections.Authorized != 7777 || seven[0].Total.Quantile(.99) == 0 {
		t.Errorf("found %+v", seven)
	}
	if none := list(Ranking{Found: []uuid.UUID{}}, page.Key{}, 50); len(none) != 0 {
		t.Errorf("of no client: %+v", none)
	}

	list(Ranking{}, page.Key{}, 51)
	sent.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
		for _, node := range plan {
			most := map[string]float64{"clients": partners, "usage_days": partners, "usage_folds": 1}[node.Table]
			if strings.Contains(sql, "ReadDays") {
				most = 51 * metricsOfWorld
			}
			if node.Table != "" && node.Read() > most {
				t.Errorf("%s\nreads %v rows of %s", sql, node.Read(), node.Table)
			}
		}
	})
}

// A report reads the days that it shows, of one client or of all together.
func TestDaysByIndex(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	db := pgtest.New(t)
	world(t, db, 1000, 60)
	sent := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	u := New(pool, wait.Patient, nil, db.Now)
	client := pgtest.Value[uuid.UUID](t, db, "select md5('client 7')::uuid")
	for _, id := range []uuid.UUID{client, everyone} {
		if report, err := u.DaysOf(t.Context(), id, db.Now().Add(-29*oneDay)); err != nil || len(report.Days) != 30 {
			t.Fatalf("%d days, %v", len(report.Days), err)
		}
	}
	if connections, err := u.Connections(t.Context(), client); err != nil || connections.Precision != Exact {
		t.Fatal(connections, err)
	}
	sent.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
		for _, node := range plan {
			if node.Table == "usage_days" && (node.Read() > 30*metricsOfWorld || strings.HasPrefix(node.Type, "Seq")) {
				t.Errorf("%s\nreads %v rows by %s", sql, node.Read(), node.Type)
			}
		}
	})
}
