package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/internal/pgtest"
	"connect-svc/internal/postgres"
)

// held is a [postgres.Together] whose transactions all wait, so that what is asked meanwhile is sent together.
type held struct {
	*postgres.Together
	release func()
}

func hold(t *testing.T, db *pgtest.DB) held {
	t.Helper()
	db.Exec(t, "create table done (n int, tx text default pg_current_xact_id()::text)")
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithoutStatementTimeout())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	together := postgres.NewTogether(pool)
	together.SetPatience(time.Hour)
	return holdAgain(t, together, db.Pool)
}

func holdAgain(t *testing.T, together *postgres.Together, pool *pgxpool.Pool) held {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // where the test failed
	var waiting sync.WaitGroup
	for i := range together.Transactions() {
		waiting.Go(func() {
			if _, err := together.On().Exec(t.Context(), "select pg_advisory_xact_lock_shared(1)"); err != nil {
				t.Error(err)
			}
		})
		eventually(t, func() bool { // each by itself: they would share a transaction
			var n int
			err := pool.QueryRow(t.Context(), waitingFor, 1).Scan(&n)
			return err == nil && n == i+1
		})
	}
	return held{together, func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		waiting.Wait()
	}}
}

// waitingFor counts who waits for a lock.
const waitingFor = `select count(*) from pg_locks where locktype = 'advisory' and objid = $1 and not granted
	and database = (select oid from pg_database where datname = current_database())`

func eventually(t *testing.T, happened func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	end := time.After(time.Minute)
	for !happened() {
		select {
		case <-again.C:
		case <-end:
			t.Fatal("it did not happen")
		}
	}
}

// all starts the calls one after another, releases the transactions, and waits.
func (h held) all(t *testing.T, calls ...func()) {
	t.Helper()
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(call)
		eventually(t, func() bool { return h.Waiting() == i+1 })
	}
	h.release()
	running.Wait()
}

const insert = "insert into done (n) values ($1)"

// times is how often each number was noted, and in how many transactions.
func times(t *testing.T, db *pgtest.DB) (numbers []int, transactions int) {
	t.Helper()
	numbers = pgtest.Value[[]int](t, db, "select coalesce(array_agg(n order by n), '{}') from done")
	return numbers, pgtest.Value[int](t, db, "select count(distinct tx) from done")
}

func code(err error) string {
	var refused *pgconn.PgError
	errors.As(err, &refused)
	if refused == nil {
		return fmt.Sprint(err)
	}
	return refused.Code
}
