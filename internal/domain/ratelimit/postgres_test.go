package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestPostgres(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T, servers int) fleet {
		db := pgtest.New(t)
		f := fleet{store: ratelimit.NewPostgres(db.Pool), newClient: func(t testing.TB) uuid.UUID { return db.Client(t).ID }}
		for range servers {
			f.servers = append(f.servers, patient(ratelimit.NewPostgres(db.Open(t))))
		}
		return f
	})
}

// patient is a limiter that gives no answer but by the rules, however busy the machine is.
func patient(store ratelimit.Store) *ratelimit.Limiter {
	return ratelimit.New(store, wait.Patient.Limiter)
}

var somePolicy = ratelimit.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10}

// Without a decision there is an error, in time (decisions, section 5: never a free pass).

func TestPostgresOverrun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client, limiter := db.Client(t).ID, patient(ratelimit.NewPostgres(db.Pool))
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 100, ConcurrentReads: 1}
	held := admit(t, limiter, client, policy, start)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from rate_limits for update"); err != nil {
		t.Fatal(err)
	}
	limiter.SetTimeLimit(100 * time.Millisecond)
	checkRefused(t, limiter, client)
	if err := held.Release(t.Context()); err == nil {
		t.Error("Release without the lock: no error")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	limiter.SetTimeLimit(wait.Patient.Limiter)
	// The lease whose release failed, and those that may have been given meanwhile, end with the next question.
	if decision := admit(t, limiter, client, policy, start); !decision.Allowed {
		t.Errorf("after the lock was gone: %+v, want allowed", decision)
	}
}

// A caller that leaves ends nothing of its client's: neither the release of the lease that it had, nor those that wait for the next question.
// Other servers would refuse the client for them.
func TestCallerThatLeft(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithLimits(wait.Patient), postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	client, limiter := db.Client(t).ID, patient(ratelimit.NewPostgres(pool))
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 100, ConcurrentReads: 1}
	caller, leave := context.WithCancel(t.Context())
	request, cancel := work.WithinWhileWanted(caller, work.Caller{Kind: work.Partners}, wait.Limit)
	defer cancel()
	held, err := limiter.Admit(request, client, policy, start)
	if err != nil || !held.Allowed {
		t.Fatalf("%+v, %v", held, err)
	}
	busy, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave()
	released := make(chan error, 1)
	go func() { released <- held.Release(request) }()
	wait.Until(t, "the release waits for a connection, or fails", func() bool { return pool.QueueStats().Waiting+len(released) > 0 })
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "the release", released); err != nil {
		t.Error(err)
	}
	if decision := admit(t, patient(ratelimit.NewPostgres(db.Pool)), client, policy, start); !decision.Allowed {
		t.Errorf("at another server: %+v", decision)
	}
}

func checkRefused(t *testing.T, limiter *ratelimit.Limiter, client uuid.UUID) {
	t.Helper()
	decision, err := limiter.Admit(t.Context(), client, somePolicy, start)
	if err == nil || decision.Allowed {
		t.Errorf("Admit = %+v, %v; want an error", decision, err)
	}
}

func BenchmarkPostgres(b *testing.B) {
	db := pgtest.New(b)
	benchmarkLimiter(b, patient(ratelimit.NewPostgres(db.Pool)), db.Client(b).ID)
}
