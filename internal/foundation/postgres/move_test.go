package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A pool that is read-only reads, and writes in the transactions of Noting alone.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Exec(t, "create table notes (n int)")
	// The URL asks for a database that takes writes. This one does, but not from this pool.
	pool, err := postgres.Open(t.Context(), db.URL+"&target_session_attrs=read-write", postgres.WithReadOnly(true))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const write = "insert into notes values (1)"
	if _, err := pool.Exec(t.Context(), write); !postgres.Is(err, "25006") {
		t.Errorf("a write: %v", err)
	}
	if err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), write)
		return err
	}); !postgres.Is(err, "25006") {
		t.Errorf("a write in a transaction: %v", err)
	}
	if err := pgx.BeginFunc(t.Context(), postgres.Noting{Pool: pool}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), write)
		return err
	}); err != nil {
		t.Errorf("a note: %v", err)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from notes"); n != 1 {
		t.Errorf("%d notes, want 1", n)
	}
}

// A database that takes no writes for now holds what has a deadline, which is told that nothing was attempted, and what has none as PostgreSQL does.
// When it takes writes again, what waits goes on.
func TestHeldDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Exec(t, "create table notes (n int)")
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(1), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const hold, release, write = "set default_transaction_read_only = on", "set default_transaction_read_only = off", "insert into notes values (1)"
	set := func(sql string) { // of the pool's one connection
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	writes := map[string]func(context.Context) error{
		"a statement": func(ctx context.Context) error {
			_, err := pool.Exec(ctx, write)
			return err
		},
		"a query": func(ctx context.Context) error {
			var n int
			return pool.QueryRow(ctx, write+" returning n").Scan(&n)
		},
		"a transaction": func(ctx context.Context) error {
			return postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, write)
				return err
			})
		},
	}
	for name, act := range writes {
		set(hold)
		wait.Until(t, name+" that is held to its deadline", func() bool { // which may come while PostgreSQL refuses it, and then nobody knows
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			err := act(short)
			if err == nil || !work.NotAttempted(err) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s that is held to its deadline: %v", name, err)
			}
			return work.NotAttempted(err)
		})
		if err := act(t.Context()); !postgres.Is(err, "25006") {
			t.Errorf("%s without a deadline: %v", name, err)
		}
		long, cancel := context.WithTimeout(t.Context(), wait.Limit)
		done := make(chan error, 1)
		go func() { done <- act(long) }()
		set(release)
		if err := wait.For(t, name, done); err != nil {
			t.Errorf("%s after the hold: %v", name, err)
		}
		cancel()
	}
	if n := pgtest.Value[int](t, db, "select count(*) from notes"); n != len(writes) {
		t.Errorf("%d notes, want %d", n, len(writes))
	}
}

// A pool that is led elsewhere completes what it does, and does everything else there.
func TestLead(t *testing.T) {
	t.Parallel()
	from, to := pgtest.NewEmpty(t), pgtest.NewEmpty(t)
	pool, err := postgres.Open(t.Context(), from.URL, postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	type querier interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
	name := func(at querier) (name, limit string) {
		t.Helper()
		if err := at.QueryRow(t.Context(), "select current_database(), current_setting('statement_timeout')").Scan(&name, &limit); err != nil {
			t.Fatal(err)
		}
		return name, limit
	}
	before, limit := name(pool)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Lead(pool, to.URL); err != nil {
		t.Fatal(err)
	}
	if during, _ := name(tx); during != before {
		t.Errorf("a transaction went on at %s, and began at %s", during, before)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	want := pgtest.Value[string](t, to, "select current_database()")
	for range 5 {
		if after, same := name(pool); after != want || same != limit {
			t.Errorf("the pool is at %s with a limit of %s, want %s and %s", after, same, want, limit)
		}
	}
}
