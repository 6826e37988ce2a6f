package clock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// While the database's clock is doubted nothing is sent, whatever the kind of statement, but what may be sent with any clock.
func TestDoubt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t)
	pool.Clock().Doubt("of a test")
	ctx := t.Context()
	var n int
	_, executed := pool.Exec(ctx, "select 1")
	begun := postgres.InTx(ctx, pool, func(pgx.Tx) error { return nil })
	for what, err := range map[string]error{"exec": executed, "begin": begun, "query": pool.QueryRow(ctx, "select 1").Scan(&n)} {
		if !errors.Is(err, clock.ErrDoubted) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := pool.QueryRow(work.AnyClock(ctx), "select 1").Scan(&n); err != nil {
		t.Error(err)
	}
	pool.Clock().Believe(0)
	if err := pool.QueryRow(ctx, "select 1").Scan(&n); err != nil {
		t.Error(err)
	}
}

// A statement that waits for a connection when the doubt begins is not sent either.
func TestDoubtWhileAStatementWaits(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), pgtest.New(t).URL, postgres.WithLimits(wait.Patient), postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	busy, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	executed := make(chan error, 1)
	go func() {
		_, err := pool.Exec(t.Context(), "select")
		executed <- err
	}()
	wait.Until(t, "the statement waits", func() bool { return pool.QueueStats().Waiting == 1 })
	pool.Clock().Doubt("of a test")
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "the statement", executed); !errors.Is(err, clock.ErrDoubted) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := pool.Exec(work.AnyClock(t.Context()), "select"); err != nil {
		t.Error(err)
	}
}

// A clock is doubted if the first look at it fails, and not by a later failure.
func TestDoubtUnseen(t *testing.T) {
	t.Parallel()
	database := clock.Of(nil)
	if err := database.Err(); err != nil {
		t.Error(err)
	}
	if database.DoubtUnseen(); !errors.Is(database.Err(), clock.ErrDoubted) {
		t.Error("a clock that was never seen is believed")
	}
	database.Believe(0)
	if database.DoubtUnseen(); database.Err() != nil {
		t.Error("a clock that was believed is doubted")
	}
}

// The pool expects what the clock showed when it was believed, and what has passed since. A correction is followed slowly, a jump that is believed at
// once.
func TestBelieve(t *testing.T) {
	t.Parallel()
	shift := new(clock.Clock)
	shift.Set(24 * time.Hour)
	database := clock.Of(shift)
	expects := func(ahead time.Duration) bool {
		return time.Until(database.Now()).Round(time.Second) == shift.Offset()+ahead
	}
	if _, known := database.Jumped(0); known || !expects(0) {
		t.Error("a clock that was never looked at is known")
	}
	database.Believe(time.Hour)
	if jumped, known := database.Jumped(time.Hour + 2*time.Minute); !known || jumped.Round(time.Second) != 2*time.Minute || !expects(time.Hour) {
		t.Errorf("jumped by %s, known: %t", jumped, known)
	}
	for step := range 20 {
		database.Believe(time.Hour + time.Duration(step+1)*30*time.Second)
		if jumped, _ := database.Jumped(time.Hour + time.Duration(step+1)*30*time.Second); step < 2 && jumped < 25*time.Second {
			t.Errorf("after %d small jumps the pool has followed up to %s", step+1, jumped)
			break
		}
	}
	database.Believe(-time.Hour)
	if !expects(-time.Hour) {
		t.Errorf("after a jump the pool expects %s", time.Until(database.Now()))
	}
}

// Each way to send a statement fills in what is expected when it is sent.
func TestExpected(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t)
	const query = "select $1::pg_catalog.timestamptz"
	ask := func(sql string, args ...any) (at *time.Time) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), sql, args...).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	check := func(way string, at *time.Time, ahead time.Duration) {
		t.Helper()
		if at == nil || (time.Until(*at)-ahead).Abs() > time.Minute {
			t.Errorf("%s: %v is expected, and not %s from now", way, at, ahead)
		}
	}
	if at := ask(query, clock.Expected{}); at != nil {
		t.Errorf("%s is expected of a clock that was never seen", at)
	}
	db.Clock.Set(48 * time.Hour)
	for name, mode := range map[string]pgx.QueryExecMode{
		"prepared": pgx.QueryExecModeCacheStatement, "described": pgx.QueryExecModeCacheDescribe, "described each time": pgx.QueryExecModeDescribeExec,
	} {
		for ahead := time.Hour; ahead <= 8*time.Hour; ahead += time.Hour { // prepared once, and filled in each time
			pool.Clock().Believe(ahead)
			check(name, ask(query, mode, clock.Expected{}), 48*time.Hour+ahead)
		}
	}
	for name, mode := range map[string]pgx.QueryExecMode{"as text": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol} {
		check(name, ask(query, mode, clock.Expected{}), 56*time.Hour)
	}
	if err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) (err error) {
		var at *time.Time
		err = tx.QueryRow(t.Context(), query, clock.Expected{}).Scan(&at)
		check("in a transaction", at, 56*time.Hour)
		return err
	}); err != nil {
		t.Error(err)
	}
	batch := new(pgx.Batch)
	batch.Queue(query, clock.Expected{}).QueryRow(func(row pgx.Row) error {
		var at *time.Time
		err := row.Scan(&at)
		check("in a batch", at, 56*time.Hour)
		return err
	})
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Error(err)
	}
}

// A statement that waited for a connection expects what was believed while it waited, not before.
func TestExpectedAfterAWait(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	pool.Clock().Believe(0)
	answered := make(chan time.Duration, 1)
	if err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		go func() {
			var at time.Time
			if err := pool.QueryRow(context.WithoutCancel(t.Context()), "select $1::pg_catalog.timestamptz", clock.Expected{}).Scan(&at); err != nil {
				t.Error(err)
			}
			answered <- time.Until(at)
		}()
		for pool.QueueStats().Waiting == 0 {
			if _, err := tx.Exec(t.Context(), "select 1"); err != nil {
				return err
			}
		}
		pool.Clock().Believe(time.Hour)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if ahead := <-answered; ahead.Round(time.Minute) != time.Hour {
		t.Errorf("a statement that waited expects a time %s from now", ahead)
	}
}
