package webhook

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// On connections that may only read, a poll without work succeeds: it takes no lock and writes nothing. With work it does not.
func TestIdlePollWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.window = time.Minute
	pool, err := postgres.Open(t.Context(), w.db.URL, postgres.WithClock(w.db.Clock), postgres.WithLimits(wait.Patient),
		func(c *postgres.Options) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	reader := New(pool, credential.NewTestKeyring(), Settings{Window: time.Minute, Limits: wait.Patient})
	client := w.client(t, receive(t, nil))
	if _, due, err := reader.claim(t.Context(), nil, maxHeld); err != nil || due || len(reader.changed) > 0 {
		t.Errorf("without work: %t, %v", due, err)
	}
	w.revoked(t, client)
	if _, due, err := reader.claim(t.Context(), nil, maxHeld); err == nil || !due {
		t.Errorf("with a new event: %t, %v", due, err)
	}
	w.taken(t)
	if _, due, err := reader.claim(t.Context(), nil, maxHeld); err == nil || !due {
		t.Errorf("with an event that is due: %t, %v", due, err)
	}
	w.claimed(t, map[uuid.UUID]int{client.ID: maxHeld})
	if _, due, err := reader.claim(t.Context(), nil, maxHeld); err != nil || due {
		t.Errorf("while another server sends it: %t, %v", due, err)
	}
}

// A look costs what there is to do: neither clients without events, nor retries that wait, nor paused webhooks, nor disabled
// clients make it read more.
func TestLookCostsWhatIsDue(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	w := newWorld(t)
	var clients []uuid.UUID
	for range 100 {
		clients = append(clients, w.db.Client(t).ID)
	}
	w.db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, queued, ready, due_at, leased_until)
		select gen_random_uuid(), ($1::uuid[])[1 + i % 100], 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', true, null,
			now() + interval '1 hour', now()
		from generate_series(1, 5000) as i`, clients)
	w.db.Exec(t, "vacuum analyze webhook_events")
	tx, err := w.db.Pool.Begin(t.Context()) // one session, which keeps the plan
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	read := func() (blocks int64) {
		t.Helper()
		blocks = math.MaxInt64
		for range 5 { // the first one plans; another one may read the catalogue again
			var plan string
			if err := tx.QueryRow(t.Context(), `explain (analyze, buffers, format json)
				select * from webhook_work(interval '1 minute', null, 100, 1)`).Scan(&plan); err != nil {
				t.Fatal(err)
			}
			var parsed []struct {
				Plan struct {
					Hit  int64 `json:"Shared Hit Blocks"`
					Read int64 `json:"Shared Read Blocks"`
				}
			}
			if err := json.Unmarshal([]byte(plan), &parsed); err != nil {
				t.Fatal(err)
			}
			blocks = min(blocks, parsed[0].Plan.Hit+parsed[0].Plan.Read)
		}
		return blocks
	}
	const idle, each = 50, 20
	if blocks := read(); blocks > idle {
		t.Errorf("a look without work reads %d blocks", blocks)
	}
	if _, err := tx.Exec(t.Context(), "update webhook_events set ready = 0 where client_id = any ($1)", clients[:10]); err != nil {
		t.Fatal(err)
	}
	if blocks := read(); blocks > idle+10*each {
		t.Errorf("a look at ten clients' events reads %d blocks", blocks)
	}
	if _, err := tx.Exec(t.Context(), `insert into webhook_endpoints (client_id, url, secret, paused_at)
		select c, 'https://partner.example/', 'x', now() from unnest($1::uuid[]) as c`, clients[:10]); err != nil {
		t.Fatal(err)
	}
	if blocks := read(); blocks > idle {
		t.Errorf("a look at ten paused clients reads %d blocks", blocks)
	}
	if _, err := tx.Exec(t.Context(), `with resumed as (delete from webhook_endpoints) update clients set status = 'disabled' where client_id = any ($1)`, clients[:10]); err != nil {
		t.Fatal(err)
	}
	if blocks := read(); blocks > idle {
		t.Errorf("a look at ten disabled clients reads %d blocks", blocks)
	}
}

// The figure: how long an event is under way beside 10,000 clients, each with 100 events that wait for their next attempt.
func BenchmarkWaitingRetries(b *testing.B) {
	const clients, each = 10_000, 100
	w := newWorld(b)
	r := receive(b, nil)
	client := w.client(b, r)
	w.db.Exec(b, `insert into clients select (jsonb_populate_record(cl, jsonb_build_object('client_id', gen_random_uuid(), 'name', 'Partner ' || i))).*
		from clients cl, generate_series(1, $1) as i`, clients)
	w.db.Exec(b, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, queued, ready, due_at, leased_until)
		select gen_random_uuid(), client_id, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', true, null, now() + interval '1 hour', now()
		from clients, generate_series(1, $1)`, each)
	w.db.Exec(b, "vacuum analyze webhook_events")
	w.run(b)
	for b.Loop() {
		w.revoked(b, client)
		w.Wake()
		r.next(b)
	}
}

// A server that polls once an hour sends an event at once when it is woken.
func TestWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.maxInterval = time.Hour
	r := receive(t, func(http.ResponseWriter, *http.Request) {})
	client := w.client(t, r)
	before := w.pool.Stat().AcquireCount()
	w.run(t)
	wait.Until(t, "the end of the first poll", func() bool {
		stat := w.pool.Stat()
		return stat.AcquireCount() > before && stat.AcquiredConns() == 0
	})
	w.revoked(t, client)
	w.Wake()
	r.next(t)
}
