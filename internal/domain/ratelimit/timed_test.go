//go:build timed

package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// promise is for a read, of which the question to the store is a part (decisions, section 5).
const promise = 2 * time.Second

// While PostgreSQL or Redis does not answer, a read learns in its time that nothing was decided.
func TestTimedLimiter(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		db := pgtest.New(t)
		client, limiter := db.Client(t).ID, ratelimit.New(ratelimit.NewPostgres(db.Pool), work.DefaultLimits.Limiter)
		admit(t, limiter, client, somePolicy, start)
		tx, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err := tx.Exec(t.Context(), "select from rate_limits for update"); err != nil {
			t.Fatal(err)
		}
		checkRefusedInTime(t, limiter, client)
	})
	t.Run("Redis", func(t *testing.T) {
		server := redistest.Start(t)
		store, err := ratelimit.OpenRedis(t.Context(), server.URL(), work.DefaultLimits.Limiter)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		client, limiter := uuid.New(), ratelimit.New(store, work.DefaultLimits.Limiter)
		admit(t, limiter, client, somePolicy, start)
		server.Pause(t)
		t.Cleanup(func() { server.Continue(t) })
		checkRefusedInTime(t, limiter, client)
	})
}

// Once the address of Redis leads to another server, reads are decided again within two seconds, however the old one behaves.
func TestTimedRedisSwitchover(t *testing.T) {
	for name, demote := range map[string]func(old, promoted *redistest.Server){
		"refuses": func(old, promoted *redistest.Server) { old.Follow(t, promoted) },
		"hangs":   func(old, _ *redistest.Server) { old.Pause(t) },
	} {
		t.Run(name, func(t *testing.T) {
			old, promoted := redistest.Start(t), redistest.Start(t)
			address := proxytest.New(t)
			store := openIdle(t, address.Open(t, old.URL()), old, work.DefaultLimits.Limiter)
			store.At(func() time.Time { return time.Now().Add(ratelimit.MaxAge) }) // it goes on from where openIdle stopped it
			limiter := ratelimit.New(store, work.DefaultLimits.Limiter)
			demote(old, promoted)
			failed, last, lost, began := 0, time.Duration(0), wait.Stalls(), time.Now()
			address.Open(t, promoted.URL())
			for time.Since(began) < 2*promise {
				read, cancel := context.WithTimeout(t.Context(), work.DefaultLimits.Read)
				if _, err := limiter.Admit(read, uuid.New(), somePolicy, start); err != nil {
					failed, last = failed+1, time.Since(began)
				}
				cancel()
			}
			t.Logf("%d reads failed, the last one after %s", failed, last)
			wait.InTime(t, "the switchover", last, promise, lost())
		})
	}
}

func checkRefusedInTime(t *testing.T, limiter *ratelimit.Limiter, client uuid.UUID) {
	t.Helper()
	read, cancel := context.WithTimeout(t.Context(), work.DefaultLimits.Read)
	defer cancel()
	for name, ctx := range map[string]context.Context{"a read": read, "a question without a deadline": t.Context()} {
		promised := promise
		if _, limited := ctx.Deadline(); !limited {
			promised = work.DefaultLimits.Limiter + time.Second // it is cancelled, then
		}
		lost, began := wait.Stalls(), time.Now()
		decision, err := limiter.Admit(ctx, client, somePolicy, start)
		took := time.Since(began)
		if err == nil || decision.Allowed {
			t.Errorf("%s: Admit = %+v, %v; want an error", name, decision, err)
		}
		wait.InTime(t, name, took, promised, lost())
	}
}
