package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// While the database's clock is doubted nothing is sent, whatever the kind of statement, but what may be sent with any clock.
func TestDoubt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t)
	doubt := errors.New("doubt")
	pool.Doubt(doubt)
	ctx := t.Context()
	var n int
	_, executed := pool.Exec(ctx, "select 1")
	begun := postgres.InTx(ctx, pool, func(pgx.Tx) error { return nil })
	for what, err := range map[string]error{"exec": executed, "begin": begun, "query": pool.QueryRow(ctx, "select 1").Scan(&n)} {
		if !errors.Is(err, doubt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := pool.QueryRow(work.AnyClock(ctx), "select 1").Scan(&n); err != nil {
		t.Error(err)
	}
	pool.Believe(0)
	if err := pool.QueryRow(ctx, "select 1").Scan(&n); err != nil {
		t.Error(err)
	}
}

// The pool expects what the database's clock showed when it was believed, and what has passed since. A correction is followed slowly, a jump
// that is believed at once.
func TestBelieve(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t)
	expects := func(ahead time.Duration) bool {
		return time.Until(*pool.Expected()).Round(time.Second) == db.Clock.Offset()+ahead
	}
	if _, known := pool.Jumped(0); known || pool.Expected() != nil {
		t.Error("a clock that was never looked at is known")
	}
	pool.Believe(time.Hour)
	if jumped, known := pool.Jumped(time.Hour + 2*time.Minute); !known || jumped.Round(time.Second) != 2*time.Minute || !expects(time.Hour) {
		t.Errorf("jumped by %s, known: %t", jumped, known)
	}
	for step := range 20 {
		pool.Believe(time.Hour + time.Duration(step+1)*30*time.Second)
		if jumped, _ := pool.Jumped(time.Hour + time.Duration(step+1)*30*time.Second); step < 2 && jumped < 25*time.Second {
			t.Errorf("after %d small jumps the pool has followed up to %s", step+1, jumped)
			break
		}
	}
	pool.Believe(-time.Hour)
	if !expects(-time.Hour) {
		t.Errorf("after a jump the pool expects %s", time.Until(*pool.Expected()))
	}
}

// The offset that tests and the demo give to the clock does not count.
func TestClockDifference(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "its clock is that of each node")
	db := pgtest.New(t)
	db.Clock.Set(24 * time.Hour)
	for _, ahead := range []time.Duration{0, -time.Hour, 401 * 24 * time.Hour} {
		db.Jump(t, ahead)
		if got, err := postgres.ClockDifference(t.Context(), db.Pool); err != nil || got.Round(time.Second) != ahead {
			t.Errorf("ahead by %s instead of %s, %v", got, ahead, err)
		}
	}
}
