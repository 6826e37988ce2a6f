package postgres_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// One who asks for much waits behind itself: of the others each is served after one of its statements.
func TestPoolIsFair(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(1), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "create table served (turn int generated always as identity, caller text)"); err != nil {
		t.Fatal(err)
	}
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ask := func(caller string) {
		all.Go(func() {
			if _, err := pool.Exec(work.WithCaller(t.Context(), work.Caller{Name: caller}), "insert into served (caller) values ($1)", caller); err != nil {
				t.Error(err)
			}
		})
	}
	for range 100 {
		ask("much")
	}
	wait.Until(t, "all wait", func() bool { return pool.QueueStats().Waiting == 100 })
	for i := range 5 {
		ask(fmt.Sprint(i))
	}
	wait.Until(t, "the others wait, too", func() bool { return pool.QueueStats().Waiting == 105 })
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if last := pgtest.Value[int](t, db, "select max(turn) from served where caller <> 'much'"); last > 10 {
		t.Errorf("the last of the five others was served in turn %d", last)
	}
}

// Strangers use a quarter of the connections at a time, and everybody else the others.
func TestStrangersShareAQuarter(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), pgtest.New(t).URL, postgres.WithMaxConns(8), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	by := func(kind work.Kind) context.Context {
		return work.WithCaller(t.Context(), work.Caller{Kind: kind})
	}
	var held []pgx.Tx
	release := func() {
		for _, tx := range held {
			_ = tx.Rollback(context.Background())
		}
	}
	defer release() // before the pool waits for them
	hold := func(kind work.Kind) {
		tx, err := pool.Begin(by(kind))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, tx)
	}
	hold(work.Strangers)
	hold(work.Codes)
	third := make(chan error, 1)
	go func() {
		_, err := pool.Exec(by(work.Strangers), "select 1")
		third <- err
	}()
	wait.Until(t, "the third stranger waits", func() bool { return pool.QueueStats().Waiting == 1 })
	for range 6 {
		hold(work.Users)
	}
	release()
	if err := <-third; err != nil {
		t.Error(err)
	}
}

// Every way to the database goes through the queue: a new method is listed here, and has its own test.
func TestPoolHasNoOtherMethods(t *testing.T) {
	t.Parallel()
	var methods []string
	for method := range reflect.TypeFor[*postgres.Pool]().Methods() {
		methods = append(methods, method.Name)
	}
	want := []string{
		"Begin", "Exec", "Query", "QueryRow", "SendBatch", // through the queue
		"Outside",                                 // for a probe of the queue
		"Close", "MaxConns", "QueueStats", "Stat", // which send nothing
		"Clock", // which sends nothing either
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, methods); diff != "" {
		t.Errorf("methods of the pool (-want +got):\n%s", diff)
	}
	for field := range reflect.TypeFor[postgres.Pool]().Fields() {
		if field.IsExported() || field.Anonymous {
			t.Errorf("the field %s hands out what does not wait in the queue", field.Name)
		}
	}
}

// A batch waits in the queue as every statement does, has its error, and gives its connection back once.
func TestBatchesAreQueued(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	batch := new(pgx.Batch)
	for n := range 2 {
		batch.Queue("select $1::int", n)
	}
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := work.Within(t.Context(), work.Caller{}, time.Millisecond)
	defer cancel()
	refused := pool.SendBatch(late, batch)
	_, failure := refused.Exec()
	rows, err := refused.Query()
	if rows != nil {
		rows.Close()
	}
	for _, err := range []error{failure, err, refused.QueryRow().Scan(new(int)), refused.Close()} {
		if !errors.Is(err, work.ErrLate) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a batch that could not be sent: %v", err)
		}
	}
	sum := make(chan int)
	go func() {
		results, total := pool.SendBatch(t.Context(), batch), 0
		for range 2 {
			n := 0
			if err := results.QueryRow().Scan(&n); err != nil {
				t.Error(err)
			}
			total += n + 1
		}
		if err := errors.Join(results.Close(), results.Close()); err != nil {
			t.Error(err)
		}
		sum <- total
	}()
	wait.Until(t, "the batch waits in the queue", func() bool { return pool.QueueStats().Waiting == 1 })
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-sum; got != 3 {
		t.Errorf("the results are %d, want 3", got)
	}
	if _, err := pool.Exec(t.Context(), "select"); err != nil {
		t.Errorf("after the batch: %v", err)
	}
}

// panicking is where no value can go, and none that can be sent.
type panicking struct{}

func (panicking) Scan(any) error { panic("no value") }

func (panicking) Value() (driver.Value, error) { panic("no value") }

// The connection of a statement comes back, however the statement ends.
func TestPoolLosesNoConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(2), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for name, ask := range map[string]func(){
		"an argument that panics": func() { _, _ = pool.Exec(ctx, "select $1::int", panicking{}) },
		"an argument of a query": func() {
			rows, err := pool.Query(ctx, "select $1::int", panicking{})
			if err == nil {
				rows.Close()
			}
		},
		"a destination that panics": func() { _ = pool.QueryRow(ctx, "select 1").Scan(panicking{}) },
		"an argument of a batch that panics": func() {
			batch := new(pgx.Batch)
			batch.Queue("select $1::int", panicking{})
			_ = pool.SendBatch(ctx, batch).Close()
		},
		"a batch that fails": func() {
			batch := new(pgx.Batch)
			batch.Queue("sel")
			_ = pool.SendBatch(ctx, batch).Close()
		},
		"an argument that is none": func() { _, _ = pool.Exec(ctx, "select $1::int", struct{}{}) },
		"a statement that is none": func() {
			rows, err := pool.Query(ctx, "sel")
			if err == nil {
				rows.Close()
			}
		},
		"a row that fails":              func() { _ = pool.QueryRow(ctx, "select 1 / $1::int", 0).Scan(new(int)) },
		"no row":                        func() { _ = pool.QueryRow(ctx, "select where false").Scan() },
		"more rows than are wanted":     func() { _ = pool.QueryRow(ctx, "select generate_series(1, 1000)").Scan(new(int)) },
		"a destination that is too few": func() { _ = pool.QueryRow(ctx, "select 1, 2").Scan(new(int)) },
		"rows that are closed early": func() {
			rows, err := pool.Query(ctx, "select generate_series(1, 1000)")
			if err == nil {
				rows.Next()
				rows.Close()
				rows.Close()
			}
		},
		"a connection that breaks": func() { _, _ = pool.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())") },
		"a transaction that is left": func() {
			tx, err := pool.Begin(ctx)
			if err == nil {
				_ = tx.Rollback(ctx)
				_ = tx.Rollback(ctx)
				_ = tx.Commit(ctx)
			}
		},
		"a deadline": func() {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, _ = pool.Exec(short, "select pg_sleep(0.1)")
		},
	} {
		for range 5 {
			func() {
				defer func() { _ = recover() }()
				ask()
			}()
		}
		for range 3 {
			var one int
			if err := pool.QueryRow(ctx, "select 1").Scan(&one); err != nil || one != 1 {
				t.Fatalf("after %s: %d, %v", name, one, err)
			}
		}
	}
	wait.Until(t, "all connections come back", func() bool { return pool.Stat().AcquiredConns() == 0 }) // those that broke are closed by and by
}

// A server that hangs is not left with many connections that were given up. Only so many wait
// for connections to be made that the places of all others are left to those who need none.
func TestConnectionsLogInInTurns(t *testing.T) {
	t.Parallel()
	way := proxytest.New(t)
	pool, err := postgres.Open(t.Context(), way.Open(t, pgtest.New(t).URL), postgres.WithMaxConns(8), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	made, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Rollback(ctx) }()
	way.Hang.Lock()
	goOn := sync.OnceFunc(way.Hang.Unlock)
	defer goOn()
	hung := way.Passed.Load()
	var all sync.WaitGroup
	ask := func(ctx context.Context, want error) {
		all.Go(func() {
			if _, err := pool.Exec(ctx, "select"); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
	for given := range int32(5) { // each is given up, and its connection goes on being made
		short, cancel := context.WithCancel(ctx)
		ask(short, context.Canceled)
		wait.Until(t, "a connection is made", func() bool { return pool.Stat().ConstructingConns() == given+1 })
		cancel()
		all.Wait()
	}
	wait.Until(t, "connections log in", func() bool { return way.Passed.Load() >= hung+2 })
	if n := way.Passed.Load() - hung; n > 2 {
		t.Errorf("%d connections log in at a time", n)
	}
	ask(ctx, nil)
	ask(ctx, nil)
	wait.Until(t, "connections are made", func() bool { return pool.Stat().ConstructingConns() == 7 })
	for range 3 {
		ask(ctx, nil)
	}
	wait.Until(t, "the others have no place", func() bool { return pool.QueueStats().Waiting == 3 })
	goOn()
	if err := made.Rollback(ctx); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// If the server has ended connections meanwhile, a statement is not sent to one of them.
func TestPoolFindsConnectionsThatAreGone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(8), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 4 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := pool.Exec(t.Context(), "select"); err != nil {
					t.Errorf("a statement that could have been sent: %v", err)
				}
			})
		}
		all.Wait()
		rows, err := db.Pool.Query(t.Context(), `select pg_terminate_backend(pid, 10000)::int from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid()`)
		if err != nil {
			t.Fatal(err)
		}
		if ended, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || len(ended) == 0 {
			t.Fatalf("%d connections were ended, %v", len(ended), err)
		}
	}
}

// A restart loses no statement that had not been sent: those that are asked for while the server is away wait for it,
// within their time, and with the time the wait ends.
func TestPoolWaitsForARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	way := proxytest.New(t)
	pool, err := postgres.Open(t.Context(), way.Open(t, server.URL()), postgres.WithMaxConns(4), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "create table done (n int)"); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(short, "insert into done values (0)"); err == nil {
		t.Error("there is no server, and no error")
	}
	if _, err := pool.Exec(t.Context(), "insert into done values (0)"); err == nil { // or it waits for ever
		t.Error("without a deadline: no error")
	}
	long, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			if _, err := pool.Exec(long, "insert into done values ($1)", n); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Until(t, "those without a connection wait", func() bool { return pool.QueueStats().Waiting == 12-2 })
	if server, err = embedded.Start(t.Context(), embedded.Config{Dir: dir, Limits: wait.Patient}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	way.Open(t, server.URL())
	all.Wait()
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from done").Scan(&n); err != nil || n != 12 {
		t.Errorf("%d of 12 have happened, %v", n, err)
	}
}

// However many of one caller wait, each is served that has the time.
func TestPoolIsBoundedByTime(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithMaxConns(1), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	const many = 5000
	for range many {
		all.Go(func() {
			if _, err := pool.Exec(t.Context(), "select"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Until(t, "all wait", func() bool { return pool.QueueStats().Waiting == many })
	late, cancel := work.Within(t.Context(), work.Caller{}, time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(late, "select"); !errors.Is(err, work.ErrLate) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one without time to wait: %v", err)
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// tooLate ends the time of a statement that says so, after it has a connection and before it is sent.
type tooLate struct{}

func (tooLate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "select 'late'" && data.SQL != "begin" {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func (tooLate) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A statement whose time ends between its connection and its sending was not attempted.
func TestLateStatementIsNotAttempted(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), pgtest.New(t).URL, postgres.WithTracer(tooLate{}), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var text string
	_, executed := pool.Exec(t.Context(), "select 'late'")
	_, begun := pool.Begin(t.Context())
	for way, err := range map[string]error{"Exec": executed, "QueryRow": pool.QueryRow(t.Context(), "select 'late'").Scan(&text), "Begin": begun} {
		if !errors.Is(err, context.Canceled) || !work.NotAttempted(err) {
			t.Errorf("%s: %v, not attempted: %t", way, err, work.NotAttempted(err))
		}
	}
}

// A login that goes on to another host keeps its turn. While the first host is away or a standby, logins would otherwise wait for one another.
func TestLoginWithSeveralHostsHasOneTurn(t *testing.T) {
	t.Parallel()
	const logins = 2 // at a time
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	var together atomic.Bool
	go func() {
		var asked []net.Conn
		for {
			conn, err := away.Accept()
			if err != nil {
				return
			}
			if asked = append(asked, conn); len(asked) == logins || !together.Load() {
				for _, conn := range asked {
					_ = conn.Close()
				}
				asked = nil
			}
		}
	}()
	at, err := url.Parse(pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	at.Host = away.Addr().String() + "," + at.Host
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit/2) // less than a login has
	defer cancel()
	pool, err := postgres.Open(ctx, at.String(), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	held, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(ctx) }()
	together.Store(true)
	var all sync.WaitGroup
	for range logins {
		all.Go(func() {
			if _, err := pool.Exec(ctx, "select pg_sleep(0.1)"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
