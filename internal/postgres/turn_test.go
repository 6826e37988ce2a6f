package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A server that has a turn for long keeps the others out without a transaction, until it is done or its lease is over.
func TestInLongTurn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	other := db.Open(t)
	taken := func() (has bool) {
		t.Helper()
		if err := postgres.InLongTurn(t.Context(), other, "sweep", time.Hour, func(context.Context) error { has = true; return nil }); err != nil {
			t.Error(err)
		}
		return has
	}
	if err := postgres.InLongTurn(t.Context(), db.Pool, "sweep", time.Hour, func(context.Context) error {
		if taken() {
			t.Error("two servers have the turn")
		}
		if n := pgtest.Value[int](t, db, "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"); n != 0 {
			t.Errorf("%d transactions are open", n)
		}
		db.Clock.Advance(time.Hour + time.Second)
		if !taken() {
			t.Error("the lease is over, and no other server has the turn")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if !taken() {
		t.Error("the turn is over, and no other server has it")
	}
	// A lease that was given before the clock was set back does not keep the others out.
	db.Exec(t, "update turns set holder = gen_random_uuid(), held_until = connect_now() + interval '2 hours'")
	if !taken() {
		t.Error("a lease from the future keeps others out")
	}
}

// Work whose lease another server has taken ends, and does not take the lease back.
func TestInLongTurnIsLost(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	err := postgres.InLongTurn(t.Context(), db.Pool, "sweep", 30*time.Millisecond, func(ctx context.Context) error {
		db.Exec(t, "update turns set holder = '00000000-0000-0000-0000-000000000001', held_until = connect_now() + interval '20 ms' where task = 'sweep'")
		wait.For(t, "the work's context ends", ctx.Done())
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "the lease of the turn was lost") {
		t.Errorf("the error: %v", err)
	}
	if holder := pgtest.Value[string](t, db, "select holder::text from turns where task = 'sweep'"); holder != "00000000-0000-0000-0000-000000000001" {
		t.Errorf("the turn is %s's", holder)
	}
}
