package postgres_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/pgtest"
	"connect-svc/internal/postgres"
)

// Where a query is done again by itself its passenger has not happened, and is not said to have.
func TestPassengerOfAnother(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	passenger := &postgres.Passenger{SQL: insert, Args: []any{7}}
	h.all(t,
		func() {
			if err := h.On().QueryRow(t.Context(), "select 1 / ($1 - 7)", 7).Scan(new(int)); err == nil {
				t.Error("a division by zero succeeded")
			}
		},
		func() {
			rows, err := h.On().Query(postgres.WithPassenger(t.Context(), passenger), "select 5")
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || !slices.Equal(got, []int{5}) {
				t.Errorf("%v, %v", got, err)
			}
		},
	)
	if numbers, _ := times(t, db); passenger.Done != (len(numbers) == 1) {
		t.Errorf("done %t, and it happened %d times", passenger.Done, len(numbers))
	}
}

// A passenger happens with the next query, once, and not at all where that fails; alone, and together with others.
func TestPassenger(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"alone": false, "together": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			h := hold(t, db)
			h.release()
			read := func(passenger *postgres.Passenger, sql string) (sum int, err error) {
				query := func() {
					rows, failure := h.On().Query(postgres.WithPassenger(t.Context(), passenger), sql)
					if err = failure; err != nil {
						return
					}
					var numbers []int
					numbers, err = pgx.CollectRows(rows, pgx.RowTo[int])
					for _, n := range numbers {
						sum += n
					}
				}
				if !other {
					query()
					return sum, err
				}
				holdAgain(t, h.Together, db.Pool).all(t, query, func() {
					var n int
					if err := h.On(uuid.New()).QueryRow(t.Context(), "select $1::int", 8).Scan(&n); err != nil || n != 8 {
						t.Errorf("beside it: %d, %v", n, err)
					}
				})
				return sum, err
			}
			count := func() int { return pgtest.Value[int](t, db, "select count(*) from done") }

			passenger := &postgres.Passenger{SQL: insert, Args: []any{7}}
			for range 2 {
				if sum, err := read(passenger, "select generate_series(1, 4)"); err != nil || sum != 10 || !passenger.Done || count() != 1 {
					t.Fatalf("read %d, %v; done %t, %d times", sum, err, passenger.Done, count())
				}
			}
			passenger = &postgres.Passenger{SQL: insert, Args: []any{7}}
			if _, err := read(passenger, "select 1 / (3 - n) from generate_series(1, 4) n"); err == nil || passenger.Done || count() != 1 {
				t.Errorf("a query that fails: %v; done %t, %d times", err, passenger.Done, count())
			}
			passenger = &postgres.Passenger{SQL: "insert into done values (1 / $1::int)", Args: []any{0}}
			if sum, err := read(passenger, "select 5"); err != nil || sum != 5 || passenger.Done || count() != 1 {
				t.Errorf("a passenger that fails: %d, %v; done %t, %d times", sum, err, passenger.Done, count())
			}
		})
	}
}
