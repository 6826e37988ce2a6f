package postgres_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/pgtest"
	"connect-svc/internal/postgres"
)

// Statements that are asked for while others run share one transaction, and each has its own result.
func TestTogether(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	on := h.On(uuid.New())
	h.all(t,
		func() {
			tag, err := on.Exec(t.Context(), "insert into done (n) select generate_series(1, 3)")
			if err != nil || tag.RowsAffected() != 3 {
				t.Errorf("inserted %d, %v; want 3", tag.RowsAffected(), err)
			}
		},
		func() {
			var n int
			if err := on.QueryRow(t.Context(), insert+" returning n + 1", 4).Scan(&n); err != nil || n != 5 {
				t.Errorf("got %d, %v; want 5", n, err)
			}
		},
		func() {
			var n int
			if err := on.QueryRow(t.Context(), "select n from done where n > $1", 1000).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
				t.Errorf("got %d, %v; want no row", n, err)
			}
		},
		func() {
			rows, err := on.Query(t.Context(), "select generate_series(1, $1::int)", 1000)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || len(got) != 1000 || got[999] != 1000 {
				t.Errorf("%d rows, %v; want 1000", len(got), err)
			}
		},
		func() {
			if _, err := on.Exec(t.Context(), insert, 6); err != nil {
				t.Error(err)
			}
		},
	)
	if numbers, transactions := times(t, db); !slices.Equal(numbers, []int{1, 2, 3, 4, 6}) || transactions != 1 {
		t.Errorf("%v in %d transactions, want 1, 2, 3, 4, 6 in one", numbers, transactions)
	}
}

// A statement that fails fails by itself.
func TestTogetherFailure(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(context.Context, postgres.TogetherOn) error{
		"statement": func(ctx context.Context, on postgres.TogetherOn) error {
			_, err := on.Exec(ctx, "insert into done (n) values (1 / ($1 - 7))", 7)
			return err
		},
		"row": func(ctx context.Context, on postgres.TogetherOn) error {
			return on.QueryRow(ctx, "select 1 / ($1 - 7)", 7).Scan(new(int))
		},
		"rows": func(ctx context.Context, on postgres.TogetherOn) error {
			rows, err := on.Query(ctx, "select 1 / (7 - n) from generate_series(1, 2 * $1::int) n", 7)
			if err == nil {
				_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			h := hold(t, db)
			note := func(n int) func() {
				return func() {
					if _, err := h.On(uuid.New()).Exec(t.Context(), insert, n); err != nil {
						t.Errorf("%d: %v", n, err)
					}
				}
			}
			h.all(t, note(1), note(2), func() {
				if err := fails(t.Context(), h.On(uuid.New())); code(err) != "22012" {
					t.Errorf("got %v, want the error of the division", err)
				}
			}, note(3))
			if numbers, transactions := times(t, db); !slices.Equal(numbers, []int{1, 2, 3}) || transactions != 3 {
				t.Errorf("%v in %d transactions, want 1, 2, 3, each by itself", numbers, transactions)
			}
		})
	}
}

// What is done again has the result of the second time.
func TestTogetherAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	h.all(t,
		func() {
			if _, err := h.On(uuid.UUID{}).Exec(t.Context(), insert, 1); err != nil {
				t.Error(err)
			}
		},
		func() { // no row after the insert in its transaction, and one by itself
			var n int
			const ask = "select 2 where pg_current_xact_id_if_assigned() is null"
			if err := h.On(uuid.New()).QueryRow(t.Context(), ask).Scan(&n); err != nil || n != 2 {
				t.Errorf("got %d, %v", n, err)
			}
		},
		func() {
			if _, err := h.On(uuid.Max).Exec(t.Context(), "select 1 / ($1::int - 7)", 7); err == nil {
				t.Error("a division by zero succeeded")
			}
		},
	)
}

// panicking is where no value can go, and none that can be sent.
type panicking struct{}

func (panicking) Scan(any) error { panic("no value") }

func (panicking) Value() (driver.Value, error) { panic("no value") }

// A mistake in the program is an error of the request that made it, and of those that shared the transaction: they cannot
// know. The server goes on, with all its connections.
func TestTogetherPanic(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	h.release()
	failing := func(fails func() error) func() {
		return func() {
			if err := fails(); err == nil || err.Error() != "panic: no value" {
				t.Errorf("got %v", err)
			}
		}
	}
	scan := failing(func() error { return h.On().QueryRow(t.Context(), "select 1").Scan(panicking{}) })
	send := failing(func() error { _, err := h.On().Exec(t.Context(), insert, panicking{}); return err })
	for range 20 { // connections
		scan()
		send()
	}
	holdAgain(t, h.Together, db.Pool).all(t, scan, scan)
	holdAgain(t, h.Together, db.Pool).all(t, send, send)
	if _, err := h.On().Exec(t.Context(), insert, 1); err != nil {
		t.Error(err)
	}
}

// What cannot even be sent fails by itself, too.
func TestTogetherUnsendable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	h.all(t,
		func() {
			if _, err := h.On().Exec(t.Context(), insert, struct{}{}); err == nil {
				t.Error("a struct was sent as a number")
			}
		},
		func() {
			if _, err := h.On().Exec(t.Context(), insert, 1); err != nil {
				t.Error(err)
			}
		},
	)
	if numbers, _ := times(t, db); !slices.Equal(numbers, []int{1}) {
		t.Errorf("%v, want 1", numbers)
	}
}

// Nobody waits long for a row that another one's statement wants to have.
func TestTogetherGivesWay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	db.Exec(t, "create table counters (n int)")
	db.Exec(t, "insert into counters values (0)")
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "update counters set n = n + 1"); err != nil {
		t.Fatal(err)
	}
	var counted sync.WaitGroup
	counted.Add(1)
	noted := make(chan error, 2)
	note := func(n int) {
		_, err := h.On(uuid.New()).Exec(t.Context(), insert, n)
		noted <- err
	}
	var all sync.WaitGroup
	for i, call := range []func(){
		func() { note(1) },
		func() {
			defer counted.Done()
			if _, err := h.On(uuid.New()).Exec(t.Context(), "update counters set n = n + 1"); err != nil {
				t.Error(err)
			}
		},
		func() { note(2) },
	} {
		all.Go(call)
		eventually(t, func() bool { return h.Waiting() == i+1 })
	}
	h.release()
	for range 2 {
		if err := <-noted; err != nil { // while the row is locked still, for which the other one waits as long as it takes
			t.Error(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted.Wait()
	all.Wait()
	if n := pgtest.Value[int](t, db, "select n from counters"); n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
	if numbers, _ := times(t, db); !slices.Equal(numbers, []int{1, 2}) {
		t.Errorf("%v, want 1, 2", numbers)
	}
}

// Where the connection breaks in the middle nothing is done again, since it might have happened.
func TestTogetherBroken(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	low, high := uuid.UUID{}, uuid.Max
	note := func(row uuid.UUID) func() {
		return func() {
			if _, err := h.On(row).Exec(t.Context(), insert, 1); err == nil {
				t.Error("it is said to have happened")
			}
		}
	}
	h.all(t, note(low), func() {
		if err := h.On(uuid.New()).QueryRow(t.Context(), "select pg_terminate_backend(pg_backend_pid())").Scan(new(bool)); err == nil {
			t.Error("a broken connection has answered")
		}
	}, note(high))
	if numbers, _ := times(t, db); len(numbers) != 0 {
		t.Errorf("%v, want nothing", numbers)
	}
}

// A caller whose time is over goes, and what was not sent then never is. What was sent happens, and is told to nobody.
func TestTogetherLeaving(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	var row int
	var unsent sync.WaitGroup
	for i, call := range []func() error{
		func() error { _, err := h.On().Exec(ctx, insert, 1); return err },
		func() error { return h.On().QueryRow(ctx, insert+" returning n", 2).Scan(&row) },
		func() error {
			rows, err := h.On().Query(ctx, insert+" returning n", 3)
			if err == nil {
				rows.Close()
			}
			return err
		},
	} {
		unsent.Go(func() {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%d: %v, want canceled", i, err)
			}
		})
		eventually(t, func() bool { return h.Waiting() == i+1 })
	}
	cancel()
	unsent.Wait() // while the transactions are held
	h.all(t)
	h = holdAgain(t, h.Together, db.Pool)

	// Two that share a transaction, which then waits.
	blocker, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.Exec(t.Context(), "select pg_advisory_xact_lock(2)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	var sent sync.WaitGroup
	for i, call := range []func() error{
		func() error {
			return h.On().QueryRow(ctx, "with note as ("+insert+" returning n) select n from note, pg_advisory_xact_lock_shared(2)", 4).Scan(&row)
		},
		func() error { _, err := h.On().Exec(ctx, insert, 5); return err },
	} {
		sent.Go(func() {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want canceled", err)
			}
		})
		eventually(t, func() bool { return h.Waiting() == i+1 })
	}
	h.release()
	eventually(t, func() bool {
		return pgtest.Value[int](t, db, waitingFor, 2) == 1
	})
	cancel()
	sent.Wait() // while the transaction waits
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { n, _ := times(t, db); return slices.Equal(n, []int{4, 5}) })
	if row != 0 {
		t.Errorf("%d was written to who had left", row)
	}
}

// Many statements for few rows, over two servers: each counts once, and nobody is told of a deadlock.
func TestTogetherOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "create table counters (id uuid primary key, n int not null default 0)")
	rows := make([]uuid.UUID, 6)
	for i := range rows {
		rows[i] = uuid.New()
		db.Exec(t, "insert into counters (id) values ($1)", rows[i])
	}
	servers := []*postgres.Together{postgres.NewTogether(db.Open(t)), postgres.NewTogether(db.Open(t))}
	const workers, each = 24, 40
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for i := range each {
				row := rows[(worker+i)%len(rows)]
				_, err := servers[worker%2].On(row).Exec(t.Context(), "update counters set n = n + 1 where id = $1", row)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if n := pgtest.Value[int](t, db, "select sum(n) from counters"); n != workers*each {
		t.Errorf("counted %d, want %d", n, workers*each)
	}
}

// Transactions that hang do not hold up the others for long.
func TestTogetherPatience(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	h.SetPatience(time.Millisecond)
	h.release()
	h = holdAgain(t, h.Together, db.Pool)
	for n := range 4 {
		if _, err := h.On().Exec(t.Context(), insert, n); err != nil {
			t.Error(err)
		}
	}
	h.release()
	if _, err := h.On().Exec(t.Context(), insert, 9); err != nil {
		t.Error(err)
	}
	if numbers, _ := times(t, db); !slices.Equal(numbers, []int{0, 1, 2, 3, 9}) {
		t.Errorf("%v, want 0 to 3 and 9", numbers)
	}
}

// One that is sent by itself does not wait for the others.
func TestTogetherAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := hold(t, db)
	if _, err := h.On().Alone().Exec(t.Context(), insert, 1); err != nil {
		t.Error(err)
	}
	if numbers, _ := times(t, db); !slices.Equal(numbers, []int{1}) {
		t.Errorf("%v, want 1", numbers)
	}
	h.release()
}
