package usage

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// storedDays reads all days.
func storedDays(t *testing.T, db *pgtest.DB, clients ...uuid.UUID) days {
	t.Helper()
	rows, err := usagedb.New(db.Pool).ReadDays(t.Context(), usagedb.ReadDaysParams{ClientIds: append(clients, everyone), Since: start.AddDate(-2, 0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return daysOf(rows)
}

// act is an act on a connection, as the audit log has it: its action, and a detail beside.
type act struct {
	action, actor, detail string
	count                 func(*Day)
}

var acts = []act{
	{"authorized", "client", `{"scopes": 7}`, func(d *Day) { d.Authorized++ }},
	{"revoked", "client", `{"reason": "refresh_token_revoked"}`, func(d *Day) { d.Revoked++ }},
	{"revoked", "client", `{"reason": "refresh_token_replayed"}`, func(d *Day) { d.Replayed++ }},
	{"revoked", "alice", `{"reason": "refresh_token_revoked", "all": true}`, func(d *Day) { d.RevokedByOperator++ }},
	{"disconnected", "user", `{}`, func(d *Day) { d.DisconnectedByUser++ }},
	{"disconnected", "client", `{}`, func(d *Day) { d.DisconnectedByClient++ }},
	{"disconnected", "alice", `{}`, func(d *Day) { d.DisconnectedByOperator++ }},
	{"disconnected", "user", `{"reason": "account_deleted"}`, func(d *Day) { d.DisconnectedWithAccount++ }},
	{"disconnected", "operator", `{"reason": "client_offboarded"}`, func(d *Day) { d.DisconnectedWithClient++ }},
	{"recovered", "client", `{}`, func(*Day) {}},
	// Of a log that was replayed after a restore: "by" did them.
	{"authorized", "operator", `{"by": "client", "scopes": "daily_steps:read"}`, func(d *Day) { d.Authorized++ }},
	{"revoked", "operator", `{"by": "client", "reason": "refresh_token_revoked"}`, func(d *Day) { d.Revoked++ }},
	{"revoked", "operator", `{"by": "client", "reason": "refresh_token_replayed"}`, func(d *Day) { d.Replayed++ }},
	{"revoked", "operator", `{"by": "alice", "reason": "refresh_token_revoked"}`, func(d *Day) { d.RevokedByOperator++ }},
	{"disconnected", "operator", `{"by": "user"}`, func(d *Day) { d.DisconnectedByUser++ }},
	{"disconnected", "operator", `{"by": "client"}`, func(d *Day) { d.DisconnectedByClient++ }},
	{"disconnected", "operator", `{"by": "alice"}`, func(d *Day) { d.DisconnectedByOperator++ }},
}

// Two servers count and fold at any time over some days. The days are the same as a count of everything.
func TestDaysAreAFullCount(t *testing.T) {
	t.Parallel()
	one, db, log := newUsage(t)
	servers := []*Usage{one, beside(one, db)}
	clients := []uuid.UUID{db.Client(t).ID, db.Client(t).ID, db.Client(t).ID}
	states := []string{"authorized", "lapsed", "revoked", "disconnected"}
	for _, client := range clients {
		insertConnections(t, db, client, states...) // the lapsed ones lapse at once
	}
	db.Exec(t, "update connections set refresh_deadline = connect_now() + interval '100 days' where refresh_deadline > connect_now()")
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	want := days{}
	now := func() time.Time { return db.Now().UTC().Truncate(oneDay) }
	count := func(client uuid.UUID, change func(*Day)) {
		change(want.of(client, now()))
		change(want.of(everyone, now()))
	}
	for _, client := range clients {
		count(client, func(d *Day) { d.Lapsed++ })
	}
	answered, minutes := map[dayKey]bool{}, map[uuid.UUID]map[int64]int64{}
	request := func(u *Usage, client uuid.UUID) {
		status := []int{200, 204, 400, 429, 503}[random.IntN(5)]
		u.Count(Request{client, "readDailyActivity", status, time.Duration(random.IntN(300)) * time.Millisecond, true})
		count(client, func(d *Day) {
			var f Figures
			f.count(status, 0, 1)
			d.Requests, d.RateLimited, d.Refused, d.Failed = d.Requests+1, d.RateLimited+f.RateLimited, d.Refused+f.Refused, d.Failed+f.Failed
		})
		if key := (dayKey{client, now()}); status < 400 && !answered[key] {
			answered[key] = true
			want.of(client, now()).ActiveClients++
			want.of(everyone, now()).ActiveClients++
		}
		if minutes[client] == nil {
			minutes[client] = map[int64]int64{}
		}
		minute := db.Now().Truncate(time.Minute).Unix()
		minutes[client][minute]++
		for _, day := range []*Day{want.of(client, now()), want.of(everyone, now())} {
			day.BusiestMinute = max(day.BusiestMinute, minutes[client][minute])
		}
	}
	fold := func() {
		for _, u := range servers {
			u.rows.Flush(t.Context())
			u.days.Flush(t.Context())
		}
		if err := servers[random.IntN(2)].Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		u, client := servers[random.IntN(2)], clients[random.IntN(len(clients))]
		switch random.IntN(8) {
		case 0, 1:
			for range random.IntN(5) {
				request(u, client)
			}
		case 2, 3:
			a := acts[random.IntN(len(acts))]
			db.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
				values ($1, $2, $3, $1, $4, 1, $5)`, uuid.New(), a.actor, "connection."+a.action, client, a.detail)
			count(client, a.count)
		case 4:
			first := random.IntN(2) == 0
			u.Active(client, now(), first)
			want.of(client, now()).ActiveUsers++
			if first {
				want.of(everyone, now()).ActiveUsers++
			}
		case 5:
			change := []func(*Day){
				func(d *Day) { d.Refreshed++ }, func(d *Day) { d.CodesSent++ }, func(d *Day) { d.CodesTried++ },
				func(d *Day) { d.WebhooksDelivered++ }, func(d *Day) { d.WebhooksFailed++ },
			}[random.IntN(5)]
			u.Happened(client, change)
			count(client, change)
		case 6: // a connection is authorized again, and lapses after two minutes
			fold()
			db.Exec(t, `update connections set refresh_deadline = connect_now() + interval '2 minutes'
				where client_id = $1 and state = 'authorized' and refresh_deadline <= connect_now()`, client)
			for _, who := range []uuid.UUID{client, everyone} {
				want.of(who, db.Now().UTC().Add(2*time.Minute).Truncate(oneDay)).Lapsed++
			}
			db.Clock.Advance(3 * time.Minute)
		case 7:
			fold()
		}
		db.Clock.Advance(time.Duration(random.IntN(40)) * time.Minute)
	}
	fold()
	for _, client := range clients {
		today := want.of(client, now())
		today.NowAuthorized, today.NowLapsed, today.NowRevoked, today.NowDisconnected = 1, 1, 1, 1
	}
	*want.of(everyone, now()) = func(d Day) Day {
		d.NowAuthorized, d.NowLapsed, d.NowRevoked, d.NowDisconnected = 3, 3, 3, 3
		return d
	}(*want.of(everyone, now()))
	got := storedDays(t, db, clients...)
	for key, day := range got {
		if sum := total(day.Durations[:]); sum != day.Requests {
			t.Errorf("%v: %d durations of %d requests", key, sum, day.Requests)
		}
		if !key.day.Equal(now()) { // earlier days have the states of their own last count
			day.NowAuthorized, day.NowLapsed, day.NowRevoked, day.NowDisconnected = 0, 0, 0, 0
			want.of(key.clientID, key.day)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Day{}, "Durations")); diff != "" {
		t.Error(diff)
	}
	if log.Len() != 0 {
		t.Errorf("the log: %s", log)
	}
}

func total(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// Counts and folds of many servers at once neither lose anything nor lock each other up, and one server folds at a time.
func TestDaysOfManyServers(t *testing.T) {
	t.Parallel()
	first, db, log := newUsage(t)
	clients := []uuid.UUID{db.Client(t).ID, db.Client(t).ID, db.Client(t).ID}
	var servers sync.WaitGroup
	for range 4 {
		server := beside(first, db)
		servers.Go(func() {
			for i := range 20 {
				for _, client := range clients {
					server.Happened(client, func(day *Day) { day.CodesSent++ })
					server.Count(Request{ClientID: client, Operation: "requestToken", Status: 200})
				}
				server.rows.Flush(t.Context())
				server.days.Flush(t.Context())
				if err := server.Fold(t.Context()); i%5 == 0 && err != nil {
					t.Error(err)
				}
			}
		})
	}
	servers.Wait()
	if err := first.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := storedDays(t, db).of(everyone, start.Truncate(oneDay))
	if all.CodesSent != 240 || all.Requests != 240 || all.ActiveClients != 3 || log.Len() != 0 {
		t.Errorf("%+v; the log: %s", all, log)
	}
}

// While the database is away the counts of days wait, as those of hours do, and a fold that fails leaves nothing.
func TestDaysWait(t *testing.T) {
	t.Parallel()
	u, db, log := newUsage(t)
	client := db.Client(t).ID
	insertConnections(t, db, client, "lapsed")
	u.Happened(client, func(day *Day) { day.CodesSent++ })
	db.Exec(t, "alter table usage_days rename to away")
	u.days.Flush(t.Context())
	if !strings.Contains(log.String(), "the counts of days could not be written") {
		t.Errorf("the log: %s", log)
	}
	if err := u.Fold(t.Context()); err == nil {
		t.Error("a fold without its table")
	}
	u.Happened(client, func(day *Day) { day.CodesSent++ })
	db.Exec(t, "alter table away rename to usage_days")
	u.days.Flush(t.Context())
	u.days.Flush(t.Context())
	for range 2 {
		if err := u.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if day := storedDays(t, db, client).of(client, start.Truncate(oneDay)); day.CodesSent != 2 || day.Lapsed != 1 || day.NowLapsed != 1 {
		t.Errorf("%+v", day)
	}
	// A server that folds does not keep another one waiting.
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "select id from usage_folds for update"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- u.Fold(t.Context()) }()
	if err := wait.For(t, "the other server", done); err != nil {
		t.Error(err)
	}
}

// After midnight a day keeps the states that its last fold counted, though it is folded again.
func TestStatesOfADayStay(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	insertConnections(t, db, client, "authorized", "revoked")
	u.Count(Request{ClientID: client, Operation: "requestToken", Status: 200})
	u.rows.Flush(t.Context())
	for _, after := range []time.Duration{0, oneDay - 12*time.Hour} { // until 00:30
		db.Clock.Advance(after)
		if err := u.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []uuid.UUID{client, everyone} {
		for _, day := range []time.Time{start, db.Now()} {
			if got := storedDays(t, db, client).of(who, day.UTC().Truncate(oneDay)).Connections(); got.Authorized != 1 || got.Revoked != 1 {
				t.Errorf("%s: %+v", day, got)
			}
		}
	}
}

// A connection that lapsed while no server folded counts on its day, once.
func TestLapsesOfEarlierDays(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client, other := db.Client(t).ID, db.Client(t).ID
	insertConnections(t, db, client, "authorized", "authorized", "revoked") // for a day
	for _, after := range []time.Duration{0, 0, 3 * oneDay, 0} {
		if db.Clock.Advance(after); after > 0 {
			insertConnections(t, db, other, "lapsed")
		}
		if err := u.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	found, lapsed := storedDays(t, db, client, other), map[string]int64{}
	for key, day := range found {
		if day.Lapsed > 0 {
			lapsed[map[uuid.UUID]string{client: "one ", other: "other ", everyone: "all "}[key.clientID]+key.day.Format(time.DateOnly)] = day.Lapsed
		}
	}
	want := map[string]int64{"one 2026-03-11": 2, "all 2026-03-11": 2, "other 2026-03-13": 1, "all 2026-03-13": 1}
	if diff := cmp.Diff(want, lapsed); diff != "" {
		t.Error(diff)
	}
}

// A connection that was authorized again from the log after a restore waits for its refresh token: it has not lapsed.
func TestReplayedConnectionsHaveNotLapsed(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	if err := u.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{time.Minute, oneDay} { // on its day, and on the day before the fold
		db.Clock.Advance(after)
		insertConnections(t, db, client, "lapsed")
		db.Exec(t, "update connections set refresh_generation = 0") // as ReplayActs leaves it
		db.Clock.Advance(after)
		if err := u.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for key, day := range storedDays(t, db, client) {
		if day.Lapsed != 0 {
			t.Errorf("%v: %d have lapsed", key, day.Lapsed)
		}
	}
}

// After the clock was ahead, days become final in their turn again.
func TestDaysAfterAClockAhead(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	fold := func(after time.Duration) {
		t.Helper()
		db.Clock.Advance(after)
		if err := u.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fold(30 * oneDay)
	fold(-30 * oneDay)
	u.Count(Request{ClientID: client, Operation: "requestToken", Status: 200})
	u.rows.Flush(t.Context())
	fold(oneDay)
	if day := storedDays(t, db, client).of(client, start.Truncate(oneDay)); day.Requests != 1 {
		t.Errorf("the day has %d requests, want 1", day.Requests)
	}
}

// The first fold reads what earlier programs left, and days are kept for 400 days.
func TestDaysOfThePast(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	for _, daysAgo := range []int{500, 399, 30, 1} {
		at := start.AddDate(0, 0, -daysAgo)
		db.Exec(t, `insert into audit_log (subject, actor, action, at, user_id, client_id, connection_version)
			values ($1, 'client', 'connection.authorized', $2, $1, $3, 1)`, uuid.New(), at, client)
		db.Exec(t, `insert into usage_hours (client_id, hour, operation, status, requests, durations)
			values ($1, date_trunc('hour', $2::timestamptz), 'requestToken', 200, 2, '{2}')`, client, at)
		db.Exec(t, `insert into usage_minutes (client_id, minute, charged) values ($1, date_trunc('minute', $2::timestamptz), 7)`, client, at)
	}
	if err := u.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := storedDays(t, db, client)
	for _, daysAgo := range []int{399, 30, 1} {
		day := start.AddDate(0, 0, -daysAgo).Truncate(oneDay)
		for _, one := range []*Day{found.of(client, day), found.of(everyone, day)} {
			if one.Authorized != 1 || one.Requests != 2 || one.BusiestMinute != 7 {
				t.Errorf("%d days ago: %+v", daysAgo, one)
			}
		}
	}
	db.Clock.Advance(2 * oneDay)
	if err := u.Sweep(t.Context(), db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, db, "select count(*) from usage_days where metric = 'authorized' and n > 0 and client_id = $1", client); n != 2 {
		t.Errorf("two days later there are %d, want 2", n)
	}
}
