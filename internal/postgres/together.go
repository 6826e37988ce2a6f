package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxTogether bounds how long a statement waits for those before it in its transaction.
	maxTogether = 32
	// patience is how long a transaction may take before another one runs in its place: one that waits for the disk, or for
	// a lock, is not what keeps the processors busy, and must not hold up who does not need either.
	patience = 10 * time.Millisecond
	// togetherLimit ends a transaction that hangs: later than the database ends a statement.
	togetherLimit = statementTimeout + 2*time.Second
	// limitLockWait makes a transaction of several statements give way before PostgreSQL looks for a deadlock (after a
	// second), and so before anybody else could be the one who has to.
	limitLockWait = "select set_config('lock_timeout', '100ms', true)"
)

// Together sends statements that are asked for at the same time in one round trip and one transaction, so that they share
// what costs more than most of them: the way there and back, and the commit's wait for the disk. No statement waits for
// company: while few transactions run it is sent at once, and otherwise, after 10 ms at most, with all that have come
// meanwhile.
//
// It is for acts of one statement, which are right whatever happens before and after them. Each has a snapshot of its own
// and the same result as by itself. None has a result before all are committed, but for the rows of a query. If one
// fails, nothing is committed, and each is done again by itself. If the connection breaks it is not known what has
// happened, as with any statement.
//
// It is safe for concurrent use.
type Together struct {
	pool     *pgxpool.Pool
	tracer   pgx.QueryTracer
	patience time.Duration
	most     int           // transactions at one time, but for those that have run for longer
	alone    chan struct{} // holds one for each statement that is sent by itself

	mu      sync.Mutex
	waiting []*statement
	running int // transactions
}

// NewTogether sends to the database of pool: as many transactions at one time as there are processors, and at least two,
// so that one is made ready while the other runs.
func NewTogether(pool *pgxpool.Pool) *Together {
	most := max(2, runtime.GOMAXPROCS(0))
	return &Together{
		pool:     pool,
		tracer:   pool.Config().ConnConfig.Tracer,
		patience: patience,
		most:     most,
		alone:    make(chan struct{}, 3*most),
	}
}

// On sends statements that lock the row of this name, or none where there is no name. All transactions lock in the order
// of the names, so that they seldom wait in a circle. It is what the generated queries want to have.
func (t *Together) On(name ...uuid.UUID) TogetherOn {
	on := TogetherOn{Pool: t.pool, together: t}
	for _, id := range name {
		on.row = append(on.row, id[:]...)
	}
	return on
}

// TogetherOn is made by [Together.On].
type TogetherOn struct {
	*pgxpool.Pool
	together *Together
	row      []byte
	alone    bool
}

// Alone sends each statement by itself, but for its passenger: for those that take much longer than the others, which would
// have to wait for them. Three times as many of them as of transactions run at one time.
func (on TogetherOn) Alone() TogetherOn {
	on.alone = true
	return on
}

// Exec carries out a statement.
func (on TogetherOn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	s := on.statement(ctx, sql, args)
	if err := on.do(s); err != nil {
		return pgconn.CommandTag{}, err
	}
	return s.tag, nil
}

// QueryRow asks for one row. The statement is sent when the row is scanned.
func (on TogetherOn) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return row{on, on.statement(ctx, sql, args)}
}

// Query asks for rows, and takes the context's passenger along. The statement must not lock anything. The rows must be
// read at once, and nothing be asked meanwhile: others wait for it. When they have been closed the passenger has happened,
// or has not.
func (on TogetherOn) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s := on.statement(ctx, sql, args)
	s.turn, s.read = make(chan struct{}), make(chan struct{})
	if passenger, _ := ctx.Value(passengerKey{}).(*Passenger); passenger != nil && !passenger.sent {
		passenger.sent = true
		s.passenger = passenger
	}
	if err := on.do(s); err != nil {
		return nil, err
	}
	return &rows{Rows: s.rows, statement: s}, nil
}

func (on TogetherOn) statement(ctx context.Context, sql string, args []any) *statement {
	return &statement{ctx: ctx, row: on.row, sql: sql, args: args, ended: make(chan struct{})}
}

// row is the one that a statement asks for.
type row struct {
	on TogetherOn
	*statement
}

// Scan implements [pgx.Row].
func (r row) Scan(into ...any) error {
	r.into = into
	return r.on.do(r.statement)
}

// rows are read by who asked for them, while the transaction waits.
type rows struct {
	pgx.Rows
	statement *statement
	closed    bool
}

// Close implements [pgx.Rows].
func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	close(r.statement.read)
	if r.statement.passenger != nil {
		select {
		case <-r.statement.ended:
		case <-r.statement.ctx.Done():
			r.statement.mu.Lock()
			r.statement.left = true
			r.statement.mu.Unlock()
		}
	}
}

// statement waits, is under way or has ended.
type statement struct {
	ctx  context.Context //nolint:containedctx // of a call that lasts as long
	row  []byte          // that it locks, if it does
	sql  string
	args []any

	mu   sync.Mutex
	left bool // its caller: what is the caller's must not be written any more

	into []any             // where the row goes, if there is one
	tag  pgconn.CommandTag // where there is none

	turn, read chan struct{} // closed when the rows are there, and when they have been read; nil where it is no query
	rows       pgx.Rows
	passenger  *Passenger

	ended chan struct{} // closed when the result is known and, but for rows, committed
	err   error
}

// do waits for the result of a statement, or for its rows, as long as its context lets it. If it has not been sent by
// then, it will not be.
func (on TogetherOn) do(s *statement) error {
	if on.alone {
		go on.together.sendApart(s)
	} else {
		on.together.add(s)
	}
	select {
	case <-s.turn:
		return nil
	case <-s.ended:
		return s.err
	case <-s.ctx.Done():
		if s.leave() {
			return s.ctx.Err()
		}
		return nil
	}
}

// leave lets the caller go before the statement has ended, unless its rows are at hand.
func (s *statement) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = s.rows == nil
	return s.left
}

// sendApart sends a statement that others should not wait for.
func (t *Together) sendApart(s *statement) {
	t.alone <- struct{}{}
	defer func() { <-t.alone }()
	t.send([]*statement{s})
}

func (t *Together) add(s *statement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, s)
	if t.running < t.most {
		t.running++
		go t.run()
	}
}

// run sends what waits, until nothing does or another one runs in its place.
func (t *Together) run() {
	for {
		// Those who are about to ask come first: they have just had an answer, or a request.
		runtime.Gosched()
		statements := t.take()
		if statements == nil {
			return
		}
		replacement := time.AfterFunc(t.patience, t.replace)
		t.send(statements)
		if !replacement.Stop() {
			return
		}
	}
}

// replace lets another transaction run instead of one that takes long.
func (t *Together) replace() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 {
		go t.run()
	} else {
		t.running--
	}
}

// take is what waits to be sent. Where that is nothing, one transaction less runs.
func (t *Together) take() []*statement {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), maxTogether)
	if n == 0 {
		t.running--
		return nil
	}
	taken := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	return taken
}

// send carries out statements and ends them.
func (t *Together) send(statements []*statement) {
	statements = slices.DeleteFunc(statements, (*statement).hasLeft)
	if len(statements) > 1 || len(statements) == 1 && statements[0].passenger != nil {
		err := t.sendTogether(statements)
		statements = slices.DeleteFunc(statements, func(s *statement) bool {
			if err != nil && nothingHappened(err) && s.rows == nil {
				return false // is done again, without its passenger
			}
			if err == nil {
				s.arrive()
			}
			s.end(err)
			return true
		})
	}
	// All of them at once: none waits for another one's row.
	for i, s := range statements {
		if i < len(statements)-1 {
			go s.sendAlone(t.pool)
		} else {
			s.sendAlone(t.pool)
		}
	}
}

// nothingHappened tells whether a transaction that failed is known not to have happened.
func nothingHappened(err error) bool {
	var refused *pgconn.PgError
	var encoding pgx.ErrPreprocessingBatch
	return errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR" || errors.As(err, &encoding)
}

// sendTogether carries out statements in one transaction: first the queries, which lock nothing, and then the others in
// the order of what they lock. That one of the callers goes away does not end what the others wait for.
func (t *Together) sendTogether(statements []*statement) (err error) {
	all := slices.Clone(statements)
	for _, s := range statements {
		if s.passenger != nil {
			all = append(all, &statement{row: s.passenger.Row[:], sql: s.passenger.SQL, args: s.passenger.Args})
		}
	}
	slices.SortStableFunc(all, func(a, b *statement) int { return bytes.Compare(a.row, b.row) })
	limited := len(statements) > 1 && all[len(all)-1].row != nil
	batch := &pgx.Batch{}
	if limited {
		batch.Queue(limitLockWait)
	}
	for _, s := range all {
		batch.Queue(s.sql, s.args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), togetherLimit)
	defer cancel()
	defer t.trace(statements)(&err)
	defer recovered(&err)
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // the pool's own SendBatch would keep it where something panics
	results := conn.SendBatch(ctx, batch)
	defer func() {
		if committing := results.Close(); err == nil {
			err = committing
		}
	}()
	return carryOutAll(results, limited, all)
}

// recovered makes an error of a panic, which would otherwise end the program, and not one request alone.
func recovered(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("panic: %v", failure)
	}
}

// trace tells the tracer of each statement, as one of its caller's, and of their end.
func (t *Together) trace(statements []*statement) (end func(*error)) {
	if t.tracer == nil {
		return func(*error) {}
	}
	traced := make([]context.Context, len(statements))
	for i, s := range statements {
		traced[i] = t.tracer.TraceQueryStart(s.ctx, nil, pgx.TraceQueryStartData{SQL: s.sql, Args: s.args})
	}
	return func(err *error) {
		for _, ctx := range traced {
			t.tracer.TraceQueryEnd(ctx, nil, pgx.TraceQueryEndData{Err: *err})
		}
	}
}

func carryOutAll(results pgx.BatchResults, limited bool, all []*statement) error {
	if limited {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	for _, s := range all {
		if err := s.carryOut(results.Exec, results.Query); err != nil {
			return err
		}
	}
	return nil
}

func (s *statement) sendAlone(pool *pgxpool.Pool) { s.end(s.carryOutAlone(pool)) }

func (s *statement) carryOutAlone(pool *pgxpool.Pool) (err error) {
	defer recovered(&err)
	conn, err := pool.Acquire(s.ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.carryOut(
		func() (pgconn.CommandTag, error) { return conn.Exec(s.ctx, s.sql, s.args...) },
		func() (pgx.Rows, error) { return conn.Query(s.ctx, s.sql, s.args...) },
	)
}

// carryOut takes what the statement is to have.
func (s *statement) carryOut(exec func() (pgconn.CommandTag, error), query func() (pgx.Rows, error)) (err error) {
	s.err = nil // of another try
	if s.turn == nil && s.into == nil {
		s.tag, err = exec()
		return err
	}
	found, err := query()
	if err != nil {
		return err
	}
	defer found.Close()
	if s.turn != nil {
		s.hand(found)
		return found.Err()
	}
	if !found.Next() {
		s.err = pgx.ErrNoRows
		return found.Err()
	}
	if err := s.scan(found); err != nil {
		return err
	}
	found.Close()
	return found.Err()
}

// scan gives the row to the caller.
func (s *statement) scan(found pgx.Rows) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return nil
	}
	return found.Scan(s.into...)
}

// hand gives the rows of a query to its caller, and waits until they have been read.
func (s *statement) hand(found pgx.Rows) {
	s.mu.Lock()
	left := s.left
	if !left {
		s.rows = found
		close(s.turn)
	}
	s.mu.Unlock()
	if !left {
		<-s.read
	}
}

// end tells the caller that there is a result: with err, that there is none.
func (s *statement) end(err error) {
	if err != nil {
		s.err = err
	}
	close(s.ended)
}

// arrive says that the passenger has happened.
func (s *statement) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passenger != nil && !s.left {
		s.passenger.Done = true
	}
}

func (s *statement) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// Passenger is a statement that goes along with the next query of a [Together], in the same transaction. It is for one
// goroutine.
type Passenger struct {
	SQL  string
	Args []any
	Row  uuid.UUID // names the row that it locks, as in [Together.On]
	Done bool      // it has happened
	sent bool
}

type passengerKey struct{}

// WithPassenger lets a statement go along with the next query that is made through a [Together] under the context.
func WithPassenger(ctx context.Context, passenger *Passenger) context.Context {
	return context.WithValue(ctx, passengerKey{}, passenger)
}
