// Package postgres opens the database and knows its PostgreSQL side: the pool and its timeouts, transactions, error codes,
// and the clock.
//
// # Invariants
//
//   - Every statement waits for its connection in the fair queue (TestPoolHasNoOtherMethods, TestBatchesAreQueued).
//   - A statement that outlasts its caller keeps its connection, and no statement is cancelled (TestLateAnswerKeepsTheConnection,
//     TestOverdueConnectionIsClosed). Connections are made a few at a time (TestConnectionsLogInInTurns).
//   - Strangers use at most a quarter of the connections at a time (TestStrangersShareAQuarter).
//   - The service has one clock, the clock of the database (package clock). A pool shifts it for its connections, which costs no statement
//     without a shift (TestClock, TestZeroClockSetsNothing), and fills in the time that a statement expects (clock.TestExpected).
//   - No error of this package holds a password or the database's address as it was configured, because errors are logged
//     (TestOpenErrors).
//   - Every session runs in UTC, so that a cast between date and timestamptz means the same everywhere (TestOpenDefaultsYieldToURL).
//   - Neither this package nor another one of the foundation names a table of a domain
//     (owners.TestFoundationNamesNoTableOfADomain).
//
// The embedded PostgreSQL of tests and the demo is internal/local/embedded.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/work"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

const (
	// connectTimeout bounds one attempt to connect, unless the URL has a connect_timeout, or PGCONNECT_TIMEOUT is set.
	connectTimeout = 5 * time.Second
	// maxConns is the default maximum number of connections. It exceeds the number of processors, because commits that wait for
	// the disk at the same time share the wait. Four servers stay below a hundred connections, PostgreSQL's own default.
	maxConns = 20
	// loginsAtOnce is how many connections of a pool are being made at a time.
	loginsAtOnce = 2
	// preparedStatements is how many prepared statements a connection keeps: more than the service has. The default of the driver
	// takes memory for 512, twice, on each connection.
	preparedStatements = 160
)

// Option changes how [Open] sets up the pool.
type Option func(*Options)

// Options are what an [Option] changes.
type Options struct {
	*pgxpool.Config
	shift    *clock.Clock
	database *clock.Database
	readOnly bool
	way      *atomic.Pointer[pgx.ConnConfig] // see Lead
	overdue  time.Duration                   // see attend
}

// WithClock gives every connection of the pool the time of shift.
func WithClock(shift *clock.Clock) Option {
	return func(o *Options) { o.shift = shift }
}

// WithMaxConns bounds the connections of the pool; n is 1 or more. The default is pool_max_conns of the URL, or else 20.
func WithMaxConns(n int) Option {
	return func(c *Options) { c.MaxConns = int32(n) }
}

// WithTracer has tracer trace every query. Nil means no tracer.
func WithTracer(tracer pgx.QueryTracer) Option {
	return func(c *Options) { c.ConnConfig.Tracer = tracer }
}

// WithLimits bounds statements, also those whose callers have gone, and pauses in transactions. The URL's statement_timeout and
// idle_in_transaction_session_timeout take precedence. The default is [work.DefaultLimits].
func WithLimits(limits work.Limits) Option {
	return func(c *Options) {
		setDefault(c.ConnConfig, "statement_timeout", milliseconds(limits.Statement))
		setDefault(c.ConnConfig, "idle_in_transaction_session_timeout", milliseconds(limits.IdleTransaction))
		c.overdue = limits.Overdue
	}
}

// WithReadOnly has PostgreSQL refuse every write through the pool, except in transactions of [Noting].
func WithReadOnly(on bool) Option {
	return func(o *Options) {
		if o.readOnly = on; !on {
			return
		}
		o.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		if validate := o.ConnConfig.ValidateConnect; validate != nil { // target_session_attrs, which goes by that
			o.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
				if err := validate(ctx, conn); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
					return err
				}
				return pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, conn)
			}
		}
	}
}

// WithoutStatementTimeout lets bulk work take any time.
func WithoutStatementTimeout() Option {
	return func(c *Options) {
		c.ConnConfig.RuntimeParams["statement_timeout"] = "0"
		c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	}
}

// Open connects to the PostgreSQL at url (`postgres://user:password@host:port/name`) and pings it, so that it fails if the
// database is down or refuses the connection. The error is one line without the password and the URL. Settings in the URL take
// precedence over the defaults of this package. Each connection prepares a statement once and keeps it (pgx's default).
func Open(ctx context.Context, url string, opts ...Option) (*Pool, error) {
	config, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, prepareConfig(config, url, opts))
	if err != nil {
		return nil, err
	}
	pool.options = opts
	if err := pool.conns.Ping(ctx); err != nil {
		pool.Close()
		return nil, ConnectError(config.ConnConfig, err)
	}
	if err := checkStatementTimeout(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// newPool makes a pool without connections.
func newPool(ctx context.Context, options *Options) (*Pool, error) {
	config := options.Config
	most := int(config.MaxConns)
	p := &Pool{
		queue: work.NewQueue(min(most, loginsAtOnce), work.Unbounded), strangers: work.NewQueue(max(most/4, 1), work.Unbounded),
		readOnly: options.readOnly, way: options.way, overdue: options.overdue, clock: options.database,
	}
	p.life, p.end = context.WithCancel(context.Background())
	// There are as many places as connections, and some to log in: whoever had to wait for a login would keep the place from others, whose connections
	// are there.
	var mu sync.Mutex
	opened := 0
	count := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		before := min(most, opened+loginsAtOnce)
		opened += change
		p.queue.Add(min(most, opened+loginsAtOnce) - before)
	}
	connected := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		err := connected(ctx, conn)
		if err == nil {
			count(1)
		}
		return err
	}
	config.BeforeClose = func(*pgx.Conn) { count(-1) }
	var err error
	if p.conns, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, ConnectError(config.ConnConfig, err)
	}
	return p, nil
}

// Lead has a pool of [Open] make its connections to the PostgreSQL at url from now on, in the same number. It closes present connections when what
// they do is done.
func Lead(pool *Pool, url string) error {
	config, err := parseURL(url)
	if err != nil {
		return err
	}
	pool.way.Store(prepareConfig(config, url, pool.options).ConnConfig)
	pool.conns.Reset()
	return nil
}

// Host is a server of a URL that names several.
type Host struct {
	Name string // host:port
	Pool *Pool
}

// OpenHosts prepares a pool for each host of url. It does not connect. A statement does not wait for a host that cannot be
// reached, because another host can be asked.
func OpenHosts(ctx context.Context, url string, opts ...Option) (hosts []Host, err error) {
	all, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	for _, ways := range byHost(all.ConnConfig) {
		config := all.Copy()
		config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.TLSConfig = ways[0].Host, ways[0].Port, ways[0].TLSConfig
		config.ConnConfig.Fallbacks = ways[1:]
		pool, err := newPool(ctx, prepareConfig(config, url, opts))
		if err != nil {
			for _, host := range hosts {
				host.Pool.Close()
			}
			return nil, err
		}
		pool.elsewhere = true
		hosts = append(hosts, Host{net.JoinHostPort(ways[0].Host, strconv.Itoa(int(ways[0].Port))), pool})
	}
	return hosts, nil
}

// BulkConfig returns how one connection, for statements that may take any time, reaches the PostgreSQL at url.
func BulkConfig(url string) (*pgx.ConnConfig, error) {
	config, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	return config.ConnConfig, nil
}

// checkStatementTimeout returns an error if a pooler did not pass our statement_timeout on to PostgreSQL, and nothing else limits
// the time of a statement there. Leases of the rate limiter, which end after 30 s, rely on that limit.
func checkStatementTimeout(ctx context.Context, pool *Pool) error {
	config := pool.conns.Config().ConnConfig
	asked := strings.TrimRight(config.RuntimeParams["statement_timeout"], "dhimnsu ")
	if n, err := strconv.Atoi(asked); err == nil && n == 0 {
		return nil
	}
	var limit string
	if err := pool.QueryRow(ctx, "select current_setting('statement_timeout')").Scan(&limit); err != nil {
		return ConnectError(config, err)
	}
	if limit == "0" {
		return fmt.Errorf("database %q at %s: statement_timeout is not in force: a connection pooler must set it, see docs/scaling.md",
			config.Database, Address(config))
	}
	return nil
}

// prepareConfig applies the defaults and the options.
func prepareConfig(config *pgxpool.Config, url string, opts []Option) *Options {
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = maxConns
	}
	config.PingTimeout = config.ConnConfig.ConnectTimeout
	for name, capacity := range map[string]*int{"statement": &config.ConnConfig.StatementCacheCapacity, "description": &config.ConnConfig.DescriptionCacheCapacity} {
		if !strings.Contains(url, name+"_cache_capacity") {
			*capacity = preparedStatements
		}
	}
	o := &Options{Config: config}
	for _, opt := range opts {
		opt(o)
	}
	if o.overdue == 0 {
		WithLimits(work.DefaultLimits)(o)
	}
	logins := make(chan struct{}, loginsAtOnce)
	o.way = new(atomic.Pointer[pgx.ConnConfig])
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if other := o.way.Load(); other != nil {
			*c = *other.Copy()
		}
		takeTurns(c, logins)
		closeAtOnce(c)
		return nil
	}
	o.database = clock.Of(o.shift)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap()) // otherwise each id is converted through text
		o.database.FillIn(conn.TypeMap())
		// A statement that waited for a row decides by its newest version, whatever the database's default. Poolers refuse this setting at
		// the start of a connection.
		_, err := conn.Exec(ctx, "set default_transaction_isolation = 'read committed'", pgx.QueryExecModeSimpleProtocol)
		return err
	}
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		if hungUp(conn.PgConn().Conn()) {
			return false, nil // the pool takes another one
		}
		err := setOffset(ctx, conn, o.shift.Offset())
		return err == nil, err
	}
	return o
}

// closeAtOnce has a connection whose context ends during a statement be closed, and no more: pgx would ask the server to cancel the statement. A
// server that hangs keeps such a request waiting for seconds, and PgBouncer ends a connection of PostgreSQL for it, or itself.
func closeAtOnce(config *pgx.ConnConfig) {
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { return closing{conn} }
	var connected atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, net.ErrClosed
		}
		return dial(ctx, network, address)
	}
	config.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
}

// takeTurns has connections log in a few at a time. A server that hangs accepts connections nevertheless: those that were given up are what it
// has to begin with when it runs again, each of them with a process, and the more there are, the more are given up meanwhile.
func takeTurns(config *pgx.ConnConfig, logins chan struct{}) {
	dial := config.DialFunc
	var before atomic.Pointer[func() bool] // keeps the turn of the login's attempt before; pgx may be dialing to cancel that one
	config.DialFunc = func(attempt context.Context, network, address string) (net.Conn, error) {
		if keep := before.Swap(nil); keep == nil || !(*keep)() { // logins that go on to another host would wait for one another
			select {
			case logins <- struct{}{}:
			case <-attempt.Done():
				return nil, attempt.Err()
			}
		}
		conn, err := dial(attempt, network, address)
		keep := context.AfterFunc(attempt, func() { <-logins }) // it ends with the login, because it has the time limit of a connection
		before.Store(&keep)
		return conn, err
	}
}

// closing closes a connection.
type closing struct{ conn *pgconn.PgConn }

func (c closing) HandleCancel(context.Context) { _ = c.conn.Conn().Close() }

func (closing) HandleUnwatchAfterCancel() {}

// clockOffsetKey is the key of a connection's present offset among its custom data.
const clockOffsetKey = "connect.clock_offset"

// setOffset gives conn the offset of the clock. It sends a statement only if conn has another offset.
func setOffset(ctx context.Context, conn *pgx.Conn, offset time.Duration) error {
	data := conn.PgConn().CustomData()
	if present, _ := data[clockOffsetKey].(time.Duration); present == offset {
		return nil
	}
	if err := setConfig(ctx, conn, offset, false); err != nil {
		return err
	}
	data[clockOffsetKey] = offset
	return nil
}

// SetOffset gives the rest of a transaction an offset of the clock that differs from that of its pool.
func SetOffset(ctx context.Context, tx pgx.Tx, offset time.Duration) error {
	return setConfig(ctx, tx.Conn(), offset, true)
}

func setConfig(ctx context.Context, conn *pgx.Conn, offset time.Duration, local bool) error {
	interval := fmt.Sprintf("%d microseconds", offset.Microseconds())
	_, err := conn.Exec(ctx, "select set_config('connect.clock_offset', $1, $2)", interval, local)
	return Wrap("database: set the clock", err)
}

// ClockDifference returns by how much the database's clock, which decides every expiry, is ahead of this machine's clock. The offset of the
// pool's [clock.Clock] does not count. The error is at most half of a round trip.
func ClockDifference(ctx context.Context, pool *Pool) (time.Duration, error) {
	return ClockDifferenceBy(ctx, pool, func(ctx context.Context, conn *pgx.Conn) (theirs time.Time, err error) {
		err = conn.QueryRow(ctx, "select connect_now()").Scan(&theirs)
		return theirs, err
	})
}

// ClockDifferenceBy is [ClockDifference] by a statement of ask, which returns connect_now() among other things.
func ClockDifferenceBy(ctx context.Context, pool *Pool, ask func(context.Context, *pgx.Conn) (theirs time.Time, err error)) (time.Duration, error) {
	ctx = work.AnyClock(ctx)
	conn, release, err := pool.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	deliberate, _ := conn.Conn().PgConn().CustomData()[clockOffsetKey].(time.Duration)
	before := time.Now()
	theirs, err := ask(ctx, conn.Conn())
	return theirs.Sub(before.Add(time.Since(before)/2).Round(0)) - deliberate, err
}

func setDefault(config *pgx.ConnConfig, name, value string) {
	if _, set := config.RuntimeParams[name]; !set {
		config.RuntimeParams[name] = value
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ConnectError returns one line that says which database could not be reached, and why. It does not wrap the cause, whose text has a
// line for each attempt.
func ConnectError(config *pgx.ConnConfig, err error) error {
	return fmt.Errorf("database %q at %s: cannot connect: %s", config.Database, Address(config), Reason(err))
}

// Address returns the address of the server: host:port, or the folder of its socket.
func Address(config *pgx.ConnConfig) string {
	if strings.HasPrefix(config.Host, "/") {
		return config.Host
	}
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

// Reason returns one line that says why a server could not be used.
func Reason(err error) string {
	var refused *pgconn.PgError
	var network *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refused.Message
	case errors.As(err, &name):
		return name.Error()
	case errors.As(err, &network):
		return network.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	if failed := new(pgconn.ConnectError); errors.As(err, &failed) {
		err = failed.Unwrap()
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// pace lets bulk work go on in parts, with pauses, so that it is not always its turn: others get the processors and the disk, and the
// write-ahead log is flushed before much of it has come together, for which every commit would wait.
type pace struct{ resumed time.Time }

// yield is called after a part. It pauses for two fifths of the time that the part took, but a second at most: a part can wait for a lock.
func (p *pace) yield(ctx context.Context) error {
	work.Pause(ctx, min(time.Since(p.resumed)*2/5, time.Second))
	p.resumed = time.Now()
	return ctx.Err()
}

// The table database_history marks the history of commits that a database has. A replica that takes over begins another history, and so
// does a restore. A replica of another history does not have the mark (the SQL function database_mark). An operator reconciles a new
// history with what was lost.

// MarkHistory gives the database's history a new mark.
func MarkHistory(ctx context.Context, pool *Pool) error {
	_, err := pool.Exec(ctx, "update database_history set origin = database_origin(), mark = default")
	return Wrap("mark the history", err)
}

// MayLackCommits reports whether the database was restored, or a replica took over, since the operator last reconciled it.
func MayLackCommits(ctx context.Context, pool *Pool) (may bool, err error) {
	err = pool.QueryRow(ctx, `select exists (select 1 from database_history
		where reconciled <> database_origin() and database_origin() <> 'citus')`).Scan(&may)
	return may, Wrap("history", err)
}

// RecordReconciliation records that the operator has reconciled the database's history.
func RecordReconciliation(ctx context.Context, pool *Pool) error {
	_, err := pool.Exec(ctx, "update database_history set reconciled = database_origin()")
	return Wrap("history", err)
}

// Noting is a pool whose transactions may write, also if the pool is read-only: they write down who signed in and who looked.
type Noting struct{ *Pool }

// Begin starts a transaction.
func (n Noting) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := n.Pool.Begin(ctx)
	if err != nil || !n.readOnly {
		return tx, err
	}
	if _, err := tx.Exec(ctx, "set transaction read write"); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return tx, nil
}

// Replanned is a pool that has PostgreSQL plan each query for its values. It is for lists with optional filters: a generic plan
// would read a whole table although an index has the few rows.
type Replanned struct{ *Pool }

// Query returns rows.
func (p Replanned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.Pool.Query(ctx, sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
}
