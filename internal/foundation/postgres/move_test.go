package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
)

// A pool that is read-only reads, and writes in the transactions of Noting alone.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Exec(t, "create table notes (n int)")
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithReadOnly(true))
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
