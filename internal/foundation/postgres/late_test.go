package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// hold takes the lock that the statement wantLock waits for.
func hold(t *testing.T, db *pgtest.DB) (free func()) {
	t.Helper()
	session, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	free = func() { _ = session.Close(context.WithoutCancel(t.Context())) }
	t.Cleanup(free)
	if _, err := session.Exec(t.Context(), "select pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	return free
}

const wantLock = "insert into done select $1 from pg_advisory_xact_lock(1) returning act"

func isLockWanted(t *testing.T, db *pgtest.DB) bool {
	return pgtest.Value[bool](t, db, `select exists (select from pg_stat_activity
		where datname = current_database() and wait_event_type = 'Lock' and query = '`+wantLock+`')`)
}

// A statement that outlasts its caller goes on, and its connection is used again. If it is one of a transaction, that is rolled back. PostgreSQL
// gets no request to cancel it, for which a pooler would end a connection of PostgreSQL.
func TestLateAnswerKeepsTheConnection(t *testing.T) {
	t.Parallel()
	db, way := pgtest.New(t), proxytest.New(t)
	db.Exec(t, "create table done (act text)")
	pool, err := postgres.Open(t.Context(), way.Open(t, db.URL), postgres.WithMaxConns(1), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	inTx := func(act func(ctx context.Context, tx pgx.Tx, name string) error) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			return postgres.InTx(ctx, pool, func(tx pgx.Tx) error { return act(ctx, tx, name) })
		}
	}
	inserted := make(chan struct{})
	insertAndWait := func(ctx context.Context, tx pgx.Tx, name string) error {
		_, err := tx.Exec(ctx, "insert into done values ($1)", name)
		inserted <- struct{}{}
		<-ctx.Done()
		return err
	}
	for name, test := range map[string]struct {
		act     func(ctx context.Context, name string) error
		happens bool // although its caller does not know it
		waits   bool // without a statement
	}{
		"a statement": {act: func(ctx context.Context, name string) error {
			_, err := pool.Exec(ctx, wantLock, name)
			return err
		}, happens: true},
		"a query": {act: func(ctx context.Context, name string) error {
			rows, err := pool.Query(ctx, wantLock, name)
			if err == nil {
				rows.Close()
			}
			return err
		}, happens: true},
		"a row": {act: func(ctx context.Context, name string) error {
			return pool.QueryRow(ctx, wantLock, name).Scan(new(string))
		}, happens: true},
		"a transaction": {act: inTx(func(ctx context.Context, tx pgx.Tx, name string) error {
			_, err := tx.Exec(ctx, wantLock, name)
			return err
		})},
		"a row of a transaction": {act: inTx(func(ctx context.Context, tx pgx.Tx, name string) error {
			return tx.QueryRow(ctx, wantLock, name).Scan(new(string))
		})},
		"a transaction that goes on": {act: inTx(func(ctx context.Context, tx pgx.Tx, name string) error {
			_, _ = tx.Exec(ctx, wantLock, name)
			_, err := tx.Exec(context.WithoutCancel(ctx), "select")
			row := tx.QueryRow(context.WithoutCancel(ctx), "select 1").Scan(new(int))
			if !errors.Is(err, pgx.ErrTxClosed) || !errors.Is(row, pgx.ErrTxClosed) {
				t.Errorf("statements of a transaction that was left: %v, %v", err, row)
			}
			return nil
		})},
		"a rollback": {waits: true, act: inTx(func(ctx context.Context, tx pgx.Tx, name string) error {
			return errors.Join(insertAndWait(ctx, tx, name), ctx.Err())
		})},
		"a commit": {waits: true, act: inTx(insertAndWait)},
	} {
		free := hold(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- test.act(ctx, name) }()
		if test.waits {
			wait.For(t, name+" waits", inserted)
		} else {
			wait.Until(t, name+" waits", func() bool { return isLockWanted(t, db) })
		}
		cancel()
		if err := <-failed; err == nil {
			t.Errorf("%s: no error although it is late", name)
		}
		free()
		var happened bool
		err := pool.QueryRow(t.Context(), "select exists (select from done where act = $1)", name).Scan(&happened)
		if err != nil || happened != test.happens {
			t.Errorf("%s: happened %t, want %t; %v", name, happened, test.happens, err)
		}
	}
	if n := way.Passed.Load(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

// A query that fails has its error in its rows, too, where the functions of pgx look for it.
func TestRowsOfAQueryThatFails(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool
	query := func(db interface {
		Query(context.Context, string, ...any) (pgx.Rows, error)
	}) {
		t.Helper()
		rows, err := db.Query(t.Context(), "select from nothing")
		_, collected := pgx.CollectRows(rows, pgx.RowTo[int])
		again, _ := db.Query(t.Context(), "select from nothing")
		_, each := pgx.ForEachRow(again, nil, func() error { return nil })
		if !postgres.Is(err, postgres.UndefinedTable) || !errors.Is(collected, err) || each == nil {
			t.Errorf("%v, %v, %v", err, collected, each)
		}
	}
	query(pool)
	_ = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { query(tx); return nil })
}

// impatient opens a pool of one connection, whose answers are overdue after a time.
func impatient(t *testing.T, url string, options ...postgres.Option) *postgres.Pool {
	t.Helper()
	limits := wait.Patient
	limits.Overdue = 20 * time.Millisecond
	pool, err := postgres.Open(t.Context(), url, append(options, postgres.WithMaxConns(1), postgres.WithLimits(limits))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A server that hangs for longer than an answer is awaited costs no connection if it answers, late, before it answers a new one.
func TestServerThatHangsKeepsItsConnections(t *testing.T) {
	t.Parallel()
	db, way := pgtest.New(t), proxytest.New(t)
	var connections atomic.Int64
	answered := make(chan struct{})
	pool := impatient(t, way.Open(t, db.URL), func(o *postgres.Options) {
		dial := o.ConnConfig.DialFunc
		o.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if connections.Add(1) > 1 {
				select {
				case <-answered:
				case <-t.Context().Done():
				}
			}
			return dial(ctx, network, address)
		}
	})
	backend := func() (pid int) {
		if err := pool.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	before := backend()
	way.Hang.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := pool.Exec(ctx, "select")
		failed <- err
	}()
	wait.Until(t, "the statement is sent", func() bool { return pool.Stat().AcquiredConns() == 1 })
	cancel()
	if err := <-failed; err == nil {
		t.Error("no error although it is late")
	}
	wait.Until(t, "another connection asks", func() bool { return connections.Load() == 2 || pool.Stat().AcquiredConns() == 0 })
	way.Hang.Unlock()
	wait.Until(t, "the late answer", func() bool { return pool.Stat().AcquiredConns() == 0 })
	close(answered)
	if after := backend(); after != before {
		t.Error("it has another connection")
	}
}

// A connection is closed if its statement is overdue and another one gets an answer, and the server is not asked to cancel it.
func TestOverdueConnectionIsClosed(t *testing.T) {
	t.Parallel()
	db, way := pgtest.New(t), proxytest.New(t)
	db.Exec(t, "create table done (act text)")
	pool := impatient(t, way.Open(t, db.URL))
	hold(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := pool.Exec(ctx, wantLock, "nothing")
		failed <- err
	}()
	wait.Until(t, "the statement waits", func() bool { return isLockWanted(t, db) })
	cancel()
	if err := <-failed; err == nil {
		t.Error("no error although it is late")
	}
	if _, err := pool.Exec(t.Context(), "select"); err != nil { // although the lock is held
		t.Error(err)
	}
	if n := way.Passed.Load(); n != 3 { // with the one that asked
		t.Errorf("%d connections were made, want 3", n)
	}
}
