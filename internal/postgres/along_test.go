package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/pgtest"
	"connect-svc/internal/postgres"
)

// A passenger happens with the next query, once, and not at all where that fails.
func TestAlong(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "create table ridden (n int)")
	pool := postgres.Along{Pool: db.Pool}
	read := func(passenger *postgres.Passenger, sql string) (sum int, err error) {
		rows, err := pool.Query(postgres.WithPassenger(t.Context(), passenger), sql)
		if err != nil {
			return 0, err
		}
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
		for _, n := range numbers {
			sum += n
		}
		return sum, err
	}
	count := func() (n int) {
		if err := db.Pool.QueryRow(t.Context(), "select count(*) from ridden").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	passenger := &postgres.Passenger{SQL: "insert into ridden values ($1)", Args: []any{7}}
	for range 2 {
		if sum, err := read(passenger, "select generate_series(1, 4)"); err != nil || sum != 10 || !passenger.Done || count() != 1 {
			t.Fatalf("read %d, %v; done %t, %d times", sum, err, passenger.Done, count())
		}
	}
	passenger = &postgres.Passenger{SQL: "insert into ridden values ($1)", Args: []any{7}}
	if _, err := read(passenger, "select 1 / (3 - n) from generate_series(1, 4) n"); err == nil || passenger.Done || count() != 1 {
		t.Errorf("a query that fails: %v; done %t, %d times", err, passenger.Done, count())
	}
	passenger = &postgres.Passenger{SQL: "insert into ridden values (1 / $1::int)", Args: []any{0}}
	if sum, err := read(passenger, "select 5"); err != nil || sum != 5 || passenger.Done || count() != 1 {
		t.Errorf("a passenger that fails: %d, %v; done %t, %d times", sum, err, passenger.Done, count())
	}
}
