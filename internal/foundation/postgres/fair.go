package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
	"golang.org/x/sync/singleflight"

	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/work"
)

// connectAgainAfter is the pause after a failed attempt to connect.
const connectAgainAfter = 50 * time.Millisecond

// Pool is a pool of connections. Every statement waits for its connection in a fair queue (work.Queue): the pgx pool, whose
// methods would not wait there, is a field. Pool has the methods that the generated queries need.
//
// A statement that could not be sent, because there was no connection, has not happened. Neither has one that a cluster refuses because a table
// is on the move, or a database that takes no writes for now. If its context has a deadline, it is sent again until it succeeds or that deadline comes.
type Pool struct {
	conns     *pgxpool.Pool
	queue     *work.Queue
	strangers *work.Queue // of the callers who have proved nothing, in front of the other one
	elsewhere bool        // another server can answer, so that a statement does not wait for this one to come back
	readOnly  bool
	options   []Option                        // of Open
	way       *atomic.Pointer[pgx.ConnConfig] // to the database, if it is another one than at the start
	overdue   time.Duration
	probe     singleflight.Group
	life      context.Context // until Close
	end       context.CancelFunc
	clock     *clock.Database
}

// Close ends the connections. It waits for those in use.
func (p *Pool) Close() {
	p.end()
	p.conns.Close()
}

// Clock is the database's clock, as this pool sees it.
func (p *Pool) Clock() *clock.Database { return p.clock }

// Outside acts on a connection that is not the pool's.
func (p *Pool) Outside(ctx context.Context, act func(*pgx.Conn) error) error {
	config := cmp.Or(p.way.Load(), p.conns.Config().ConnConfig).Copy()
	closeAtOnce(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return act(conn)
}

// QueueStats returns counts of the statements that wait, and that waited, for a connection.
func (p *Pool) QueueStats() work.Stats {
	stats, strangers := p.queue.Stats(), p.strangers.Stats()
	stats.Waited += strangers.Waited
	stats.GivenUp += strangers.GivenUp
	stats.WaitTime += strangers.WaitTime
	stats.Waiting += strangers.Waiting
	return stats
}

// Stat returns counts of the connections by state.
func (p *Pool) Stat() *pgxpool.Stat { return p.conns.Stat() }

// MaxConns returns the maximum number of connections.
func (p *Pool) MaxConns() int { return int(p.conns.Config().MaxConns) }

// enter waits in the queue. Call leave afterwards. Strangers use a quarter of the connections at a time: a flood of theirs would
// otherwise keep PostgreSQL busy with as many statements as there are connections, beside those of everybody else.
func (p *Pool) enter(ctx context.Context) (leave func(), err error) {
	leave = p.queue.Release
	if kind := work.CallerOf(ctx).Kind; kind == work.Strangers || kind == work.Codes {
		if err := p.strangers.Acquire(ctx); err != nil {
			return nil, err
		}
		leave = func() { p.queue.Release(); p.strangers.Release() }
		defer func() {
			if err != nil {
				p.strangers.Release()
			}
		}()
	}
	if err := p.queue.Acquire(ctx); err != nil {
		return nil, err
	}
	work.Begin(ctx)
	return leave, nil
}

// acquire waits in the queue, and then for a connection. Call release afterwards.
func (p *Pool) acquire(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	if err := p.clock.Err(); err != nil && !work.HasAnyClock(ctx) {
		return nil, nil, err
	}
	done := work.Use(ctx)
	leave, err := p.enter(ctx)
	if doubt := p.clock.Err(); err == nil && doubt != nil && !work.HasAnyClock(ctx) { // since it waits
		leave()
		err = doubt
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	_, limited := ctx.Deadline()
	for {
		conn, failure := p.conns.Acquire(ctx)
		if failure == nil {
			return conn, func() { conn.Release(); leave(); done() }, nil
		}
		if err == nil || ctx.Err() == nil {
			err = failure // it is more specific than the deadline
		}
		if !limited || p.elsewhere || errors.Is(err, puddle.ErrClosedPool) || !work.Pause(ctx, connectAgainAfter) {
			leave()
			done()
			return nil, nil, work.Unreached(err)
		}
	}
}

// again sends the first statement on a connection, and sends it again until the deadline of ctx if it has certainly not happened.
func (p *Pool) again(ctx context.Context, send func() error) error {
	for {
		err := send()
		if !p.notHappened(err) {
			return err
		}
		if _, limited := ctx.Deadline(); !limited || !work.Pause(ctx, connectAgainAfter) {
			return work.Unreached(err)
		}
	}
}

// errHeld means that a database takes no writes for now, as its operator has said by default_transaction_read_only: the data move to another one.
var errHeld = &pgconn.PgError{Severity: "ERROR", Code: "25006", Message: "the database takes no writes for now (default_transaction_read_only)"}

// notHappened reports whether a statement has certainly not happened, and can happen soon.
func (p *Pool) notHappened(err error) bool {
	// PgBouncer answers instead of PostgreSQL if it cannot reach PostgreSQL, loses it while it prepares a connection, or has had none free for
	// too long. Statements that may have happened fail with the same code, but another message.
	var refused *pgconn.PgError
	notPassedOn := errors.As(err, &refused) && refused.Severity == "FATAL" &&
		(strings.HasPrefix(refused.Message, "server login has been failing") || refused.Message == "invalid server parameter" || refused.Message == "query_wait_timeout")
	held := !p.readOnly && !p.elsewhere && Is(err, Code(errHeld.Code))
	return pgconn.SafeToRetry(err) || notPassedOn || held || !p.elsewhere && isRefusedByCluster(err)
}

// attend has act use a connection, and waits for it while ctx lasts. The context of act outlives ctx until act has returned. From then on it
// ends with ctx, because the caller may still read what act has begun, or by finish.
//
// An act that outlasts ctx goes on alone until it is given up, and finish is nil. forget gets its late result, and releases the
// connection: one that is closed instead costs a new one, for which the next callers wait, and behind PgBouncer often one of PostgreSQL, too. A
// slow moment would then last for as long as there are callers.
func attend[T any](
	ctx context.Context, p *Pool, act func(context.Context) (T, error), forget func(T),
) (result T, finish context.CancelFunc, err error) {
	if ctx.Done() == nil || ctx.Err() != nil {
		result, err = act(ctx)
		return result, func() {}, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	type outcome struct {
		result T
		err    error
	}
	returned := make(chan outcome, 1)
	go func() {
		var o outcome
		o.err = work.Try(func() (err error) {
			o.result, err = act(own)
			return err
		})
		returned <- o
	}()
	select {
	case o := <-returned:
		stop := context.AfterFunc(ctx, cancel)
		return o.result, func() { stop(); cancel() }, o.err
	case <-ctx.Done():
		go func() {
			defer p.giveUp(cancel)()
			forget((<-returned).result)
		}()
		return result, nil, ctx.Err()
	}
}

// giveUp calls cancel when an answer is overdue, or after stop. A database that hangs answers once it goes on, and a login costs it more than an
// answer. So a connection is given up only if a new one gets an answer and it does not.
func (p *Pool) giveUp(cancel context.CancelFunc) (stop context.CancelFunc) {
	waits, stop := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		if !work.Pause(waits, p.overdue) {
			return
		}
		for p.life.Err() == nil && !p.answers() && work.Pause(waits, connectAgainAfter) {
		}
		work.Pause(waits, p.overdue/5)
	}()
	return stop
}

// answers asks the database something on a new connection. All that ask meanwhile get the same answer.
func (p *Pool) answers() bool {
	_, err, _ := p.probe.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(p.life, p.conns.Config().ConnConfig.ConnectTimeout)
		defer cancel()
		return nil, p.Outside(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "select")
			return err
		})
	})
	return err == nil
}

// executor is what executes a statement: a connection, or a transaction on it.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// exec executes a statement. left means that it goes on alone, and calls release in the end.
func (p *Pool) exec(ctx context.Context, on executor, release func(), sql string, args []any) (done pgconn.CommandTag, left bool, err error) {
	done, finish, err := attend(ctx, p, func(ctx context.Context) (pgconn.CommandTag, error) {
		return on.Exec(ctx, sql, args...)
	}, func(pgconn.CommandTag) { release() })
	if finish != nil {
		finish()
	}
	return done, finish == nil, err
}

// queryOn sends a query, and waits for its first row, which proves that it was sent. left means that it goes on alone, and calls release
// in the end.
func (p *Pool) queryOn(ctx context.Context, on executor, release func(), sql string, args []any) (result *rows, left bool, err error) {
	result, finish, err := attend(ctx, p, func(ctx context.Context) (*rows, error) {
		answer, err := on.Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return &rows{Rows: answer, has: answer.Next()}, nil
	}, func(late *rows) {
		if late != nil {
			late.Rows.Close()
		}
		release()
	})
	switch {
	case finish == nil:
		return nil, true, err
	case err != nil:
		finish()
		return nil, false, err
	}
	result.release = finish
	return result, false, nil
}

// Exec executes a statement.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (done pgconn.CommandTag, err error) {
	err = p.again(ctx, func() error {
		conn, release, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		var left bool
		if done, left, err = p.exec(ctx, conn, release, sql, args); !left {
			release()
		}
		return err
	})
	return done, err
}

// Query returns rows. Closing them releases the connection. With an error there are rows, too, which have it.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return orFailed(p.query(ctx, sql, args))
}

// QueryRow returns one row. Scanning it releases the connection.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	result, err := p.query(ctx, sql, args)
	return row{result, err}
}

func (p *Pool) query(ctx context.Context, sql string, args []any) (result *rows, err error) {
	err = p.again(ctx, func() error {
		conn, release, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		var left bool
		if result, left, err = p.queryOn(ctx, conn, release, sql, args); err != nil {
			if !left {
				release()
			}
			return err
		}
		finish := result.release
		result.release = func() { finish(); release() }
		if !result.has && p.notHappened(result.Err()) {
			result.Close()
			return result.Err()
		}
		return nil
	})
	return result, err
}

// rows hold a connection until they are closed or have all been read. The first row has been requested already.
type rows struct {
	pgx.Rows
	release func()
	has     bool // Rows is at a row
	begun   bool
}

func (r *rows) Next() bool {
	if r.begun && r.has {
		r.has = r.Rows.Next()
	}
	r.begun = true
	if !r.has {
		r.Close()
	}
	return r.has
}

func (r *rows) Close() {
	r.Rows.Close()
	if r.release != nil {
		r.release()
		r.release = nil
	}
}

// orFailed returns rows for those who look for the error there, as the functions of pgx do.
func orFailed(result *rows, err error) (pgx.Rows, error) {
	if err != nil {
		return failedRows{err: err}, err
	}
	return result, nil
}

// failedRows are those of a query that failed. The other methods are for a row.
type failedRows struct {
	pgx.Rows
	err error
}

func (failedRows) Next() bool { return false }

func (failedRows) Close() {}

func (r failedRows) Err() error { return r.err }

// row is the first of the rows.
type row struct {
	rows *rows
	err  error
}

func (r row) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close() // now the statement is committed or has failed
	return r.rows.Err()
}

// SendBatch sends several statements at once. Closing the results releases the connection, so that a batch must not begin a
// transaction. If ctx ends first, the connection is closed.
func (p *Pool) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	conn, release, err := p.acquire(ctx)
	if err != nil {
		return pgx.FailedBatchResults(batch, err)
	}
	var sent pgx.BatchResults
	defer func() {
		if sent == nil { // a panic in an argument
			release()
		}
	}()
	sent = conn.SendBatch(ctx, batch)
	return &batchResults{sent, sync.OnceFunc(release)}
}

// batchResults hold a connection until they are closed.
type batchResults struct {
	pgx.BatchResults
	release func()
}

func (b *batchResults) Close() error {
	defer b.release()
	return b.BatchResults.Close()
}

// Begin starts a transaction. Its end releases the connection.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) {
	var begun *tx
	err := p.again(ctx, func() error {
		conn, release, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		on, finish, err := attend(ctx, p, conn.Begin, func(late pgx.Tx) {
			if late != nil {
				p.rollBack(late)
			}
			release()
		})
		if finish == nil {
			return err
		}
		finish()
		if err != nil {
			release()
			return err
		}
		begun = &tx{on, p, release}
		// A caller that can wait begins nothing that would fail halfway. PostgreSQL reports the setting with the answer to "begin". PgBouncer reports
		// what it was when the connection was made, so PostgreSQL is asked.
		_, limited := ctx.Deadline()
		if limited && !p.readOnly && !p.elsewhere && conn.Conn().PgConn().ParameterStatus("default_transaction_read_only") == "on" {
			readOnly := ""
			if _ = begun.QueryRow(ctx, "select current_setting('transaction_read_only')").Scan(&readOnly); readOnly != "off" {
				_ = begun.Rollback(ctx)
				return errHeld
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return begun, nil
}

// rollBack ends a transaction for which nobody waits.
func (p *Pool) rollBack(on pgx.Tx) {
	ctx, cancel := context.WithCancel(context.Background())
	defer p.giveUp(cancel)()
	_ = on.Rollback(ctx) // or its connection is closed
}

// tx holds a connection until it ends, or until its context ends during a statement: then it is rolled back when the statement has ended.
type tx struct {
	pgx.Tx
	pool    *Pool
	release func() // nil: it has ended
}

// leave returns what ends the transaction after a statement that goes on alone.
func (t *tx) leave() func() {
	release := t.release
	return func() {
		t.pool.rollBack(t.Tx)
		release()
	}
}

// Exec executes a statement.
func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.release == nil {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	done, left, err := t.pool.exec(ctx, t.Tx, t.leave(), sql, args)
	if left {
		t.release = nil
	}
	return done, err
}

// Query returns rows, which must be closed before the next statement. With an error there are rows, too, which have it.
func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return orFailed(t.query(ctx, sql, args))
}

// QueryRow returns one row.
func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	result, err := t.query(ctx, sql, args)
	return row{result, err}
}

func (t *tx) query(ctx context.Context, sql string, args []any) (*rows, error) {
	if t.release == nil {
		return nil, pgx.ErrTxClosed
	}
	result, left, err := t.pool.queryOn(ctx, t.Tx, t.leave(), sql, args)
	if left {
		t.release = nil
	}
	return result, err
}

// ErrInDoubt means that a commit had no answer, because the context ended or the connection broke: nobody knows whether it happened.
var ErrInDoubt = errors.New("it may have been committed")

// Commit commits the transaction. Error: ErrInDoubt.
func (t *tx) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // and it can be rolled back
	}
	err := t.end(ctx, t.Tx.Commit)
	answer, isAnswer := errors.AsType[*pgconn.PgError](err)
	refused := isAnswer && answer.SeverityUnlocalized == "ERROR" || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed)
	if err != nil && !refused && !pgconn.SafeToRetry(err) { // a server that ends, which is FATAL, may have committed before
		err = fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return err
}

// Rollback rolls the transaction back, unless it has ended. It does not wait longer than ctx lasts.
func (t *tx) Rollback(ctx context.Context) error {
	if err := ctx.Err(); err != nil && t.release != nil {
		go t.leave()()
		t.release = nil
		return err
	}
	return t.end(ctx, t.Tx.Rollback)
}

func (t *tx) end(ctx context.Context, act func(context.Context) error) error {
	if t.release == nil {
		return pgx.ErrTxClosed
	}
	release := t.release
	t.release = nil
	_, finish, err := attend(ctx, t.pool, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, act(ctx)
	}, func(struct{}) { release() })
	if finish != nil {
		finish()
		release()
	}
	return err
}

// InTx runs act in a transaction. It commits if act returns nil, and rolls back if act returns an error or panics. It returns the
// error of act unchanged.
func InTx(ctx context.Context, pool *Pool, act func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, act)
}

// InTxAgain is [InTx] for an act that can be repeated. It repeats the act, at most twice, after a deadlock, and after another transaction
// deleted a row that the act refers to. While a cluster refuses it for a moment it repeats the act until the deadline of ctx.
func InTxAgain(ctx context.Context, pool *Pool, act func(pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := InTx(ctx, pool, act)
		_, limited := ctx.Deadline()
		switch {
		case limited && isRefusedByCluster(err) && work.Pause(ctx, connectAgainAfter):
		case attempt == 3 || !Is(err, DeadlockDetected) && !Is(err, ForeignKeyViolation):
			return err
		}
	}
}
