package ratelimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/pgtest"
	"connect-svc/internal/ratelimit"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestPostgres(t *testing.T) {
	t.Parallel()
	testLimiter(t, func(t *testing.T, servers int, mode clockMode) fleet {
		db := newDatabase(t)
		f := fleet{newClient: func(t testing.TB) uuid.UUID { return insertClient(t, db) }}
		for range servers {
			f.servers = append(f.servers, newPostgres(db.Open(t)))
		}
		if mode == frozen {
			f.advance = freeze(t, db)
		}
		return f
	})
}

// newDatabase looks in the end at what the limiter has left behind: PostgreSQL does not check it.
func newDatabase(t *testing.T) *pgtest.DB {
	db := pgtest.New(t)
	t.Cleanup(func() {
		const broken = "credit < 0 or cardinality(lease_ids) <> cardinality(lease_ends)"
		var rows, wrong int
		if err := db.Pool.QueryRow(context.Background(), "select count(*), count(*) filter (where "+broken+") from rate_limits").
			Scan(&rows, &wrong); err != nil || rows == 0 || wrong > 0 {
			t.Errorf("%d of %d rows are wrong, %v", wrong, rows, err)
		}
	})
	return db
}

// The statement that authenticates a read admits it by the same rule.
func TestPostgresWithinAuthentication(t *testing.T) {
	t.Parallel()
	testLimiter(t, func(t *testing.T, servers int, mode clockMode) fleet {
		db := newDatabase(t)
		f := fleet{newClient: func(t testing.TB) uuid.UUID {
			client := insertClient(t, db)
			db.Exec(t, `with person as (insert into users (user_id, email, timezone, registered_on, created_at)
					values ($1::uuid, $1::uuid || '@user.example', 'UTC', '2020-01-01', now()))
				insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
					refresh_generation, refresh_hash, refresh_deadline)
				values ($1, $1, $1, 1, 'authorized', 7, '2020-01-01', now(), 1, $2, 'infinity')`, client, make([]byte, 32))
			return client
		}}
		for range servers {
			pool := db.Open(t)
			f.servers = append(f.servers, authenticating{newPostgres(pool), pool})
		}
		if mode == frozen {
			f.advance = freeze(t, db)
		}
		return f
	})
}

// authenticating admits as the edge does: within the statement that authenticates, where that can.
type authenticating struct {
	*ratelimit.Postgres
	pool *pgxpool.Pool
}

func (a authenticating) Admit(ctx context.Context, client uuid.UUID, policy ratelimit.Policy) (ratelimit.Decision, error) {
	if _, err := a.pool.Exec(ctx, `update clients set requests_per_minute = $2, burst = $3, concurrent_reads = $4
		where client_id = $1 and (requests_per_minute, burst, concurrent_reads) is distinct from ($2, $3, $4)`,
		client, policy.RequestsPerMinute, policy.Burst, policy.ConcurrentReads); err != nil {
		return ratelimit.Decision{}, err
	}
	lease := uuid.New()
	row, err := oauthdb.New(a.pool).AuthenticateAndAdmit(ctx, oauthdb.AuthenticateAndAdmitParams{
		UserID: client, ClientID: client, Version: 1, ExpiresAt: time.Now().AddDate(9999, 0, 0), TokenID: uuid.New(), LeaseID: lease,
		NeededScopes: 1, NeededGrant: client,
	})
	switch {
	case err != nil:
		return ratelimit.Decision{}, err
	case row.Remaining != nil:
		return a.Admitted(client, lease, policy, int(*row.Remaining), int(*row.ResetSeconds)), nil
	}
	return a.Postgres.Admit(ctx, client, policy)
}

// newPostgres is a limiter that gives no answer but by the rules, however busy the machine is.
func newPostgres(pool *pgxpool.Pool) *ratelimit.Postgres {
	limiter := ratelimit.NewPostgres(pool)
	limiter.SetTimeLimit(time.Minute)
	return limiter
}

// freeze stops the clock of one database and returns what moves it.
func freeze(t testing.TB, db *pgtest.DB) func(testing.TB, time.Duration) {
	db.Exec(t, "create table frozen_clock as select now() as instant")
	db.Exec(t, "create or replace function connect_now() returns timestamptz language sql stable "+
		"as 'select instant from frozen_clock'")
	return func(t testing.TB, d time.Duration) {
		db.Exec(t, "update frozen_clock set instant = instant + make_interval(secs => $1)", d.Seconds())
	}
}

func insertClient(t testing.TB, db *pgtest.DB) uuid.UUID {
	id := uuid.New()
	db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst,
		concurrent_reads, created_at) values ($1, 'Partner', 'https://partner.example/callback', 7, $2, 600, 60, 10, now())`,
		id, make([]byte, 32))
	return id
}

var somePolicy = ratelimit.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10}

func TestPostgresUsesTheShiftedClock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client, limiter := insertClient(t, db), newPostgres(db.Pool)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 1, ConcurrentReads: 10}
	for i, want := range []bool{true, false, true} {
		if i == 2 {
			db.Clock.Advance(time.Minute)
		}
		if got := admit(t, limiter, client, policy).Allowed; got != want {
			t.Errorf("request %d: allowed %t, want %t", i, got, want)
		}
	}
}

// Without a decision there is an error, in time (decisions, section 5: never a free pass).

func TestPostgresUnknownClient(t *testing.T) {
	t.Parallel()
	decision, err := newPostgres(pgtest.New(t).Pool).Admit(t.Context(), uuid.New(), somePolicy)
	if err == nil || decision.Allowed {
		t.Errorf("Admit = %+v, %v; want an error", decision, err)
	}
}

func TestPostgresAway(t *testing.T) {
	t.Parallel()
	// A listener that never answers is how a database looks from behind a broken network.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	pool, err := pgxpool.New(t.Context(), "postgres://user@"+silent.Addr().String()+"/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	checkRefusedInTime(t, ratelimit.NewPostgres(pool), uuid.New())
}

func TestPostgresOverrun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client, limiter := insertClient(t, db), newPostgres(db.Pool)
	held := admit(t, limiter, client, somePolicy)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from rate_limits for update"); err != nil {
		t.Fatal(err)
	}
	limiter.SetTimeLimit(100 * time.Millisecond)
	checkRefusedInTime(t, limiter, client)
	if err := held.Release(t.Context()); err == nil {
		t.Error("Release without the lock: no error")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	limiter.SetTimeLimit(time.Minute)
	if decision := admit(t, limiter, client, somePolicy); !decision.Allowed {
		t.Errorf("after the lock was gone: %+v, want allowed", decision)
	}
}

func checkRefusedInTime(t *testing.T, limiter limiter, client uuid.UUID) {
	t.Helper()
	start := time.Now()
	decision, err := limiter.Admit(t.Context(), client, somePolicy)
	if err == nil || decision.Allowed {
		t.Errorf("Admit = %+v, %v; want an error", decision, err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Admit took %v, want about 2 s", took)
	}
}

func BenchmarkPostgres(b *testing.B) {
	db := pgtest.New(b)
	benchmarkLimiter(b, newPostgres(db.Pool), insertClient(b, db))
}
