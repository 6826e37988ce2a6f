package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"connect-svc/internal/timelimit"
)

const (
	// connectTimeout bounds one attempt to connect, unless the URL says connect_timeout.
	connectTimeout = 5 * time.Second
	// maxConns is how many connections a pool has at most. Commits that wait for the disk at the same time share the
	// wait, so there are more of them than processors; and four servers are still within PostgreSQL's own default of a
	// hundred connections.
	maxConns = 20
	// preparedStatements is how many of them a connection keeps: more than the service has. The driver's own default takes
	// memory for 512, twice, on each connection.
	preparedStatements = 160
)

// Option changes how [Open] sets up the pool.
type Option func(*pgxpool.Config)

// WithClock makes every connection of the pool live in the time of clock.
func WithClock(clock *Clock) Option {
	return func(c *pgxpool.Config) { c.PrepareConn = clock.prepare }
}

// WithMaxConns bounds the connections of the pool; n is 1 or more. The default is 20, or what the URL says as
// pool_max_conns.
func WithMaxConns(n int) Option {
	return func(c *pgxpool.Config) { c.MaxConns = int32(n) }
}

// WithTracer tells tracer of every query. Nil is none.
func WithTracer(tracer pgx.QueryTracer) Option {
	return func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }
}

// WithLimits bounds what a statement, its cancelling, and a pause in a transaction may take, unless the URL says statement_timeout
// or idle_in_transaction_session_timeout. The default is [timelimit.Default].
func WithLimits(limits timelimit.Limits) Option {
	return func(c *pgxpool.Config) {
		setDefault(c.ConnConfig, "statement_timeout", milliseconds(limits.Statement))
		setDefault(c.ConnConfig, "idle_in_transaction_session_timeout", milliseconds(limits.IdleTransaction))
		c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &cancelOnDeadline{conn: conn, time: limits.Cancel}
		}
	}
}

// WithoutStatementTimeout is for bulk work, which may take as long as it needs.
func WithoutStatementTimeout() Option {
	return func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["statement_timeout"] = "0"
		c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	}
}

// Open connects to the PostgreSQL at url (`postgres://user:password@host:port/name`) and asks it once, so that a
// database that is down or refuses us is known here. The error is one line and holds neither the password nor the
// URL. Settings in the URL win over the defaults of this package. Statements are prepared once for each connection
// and kept (pgx's default).
func Open(ctx context.Context, url string, opts ...Option) (*Pool, error) {
	config, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	prepareConfig(config, url, opts)
	pool, err := newPool(ctx, config)
	if err != nil {
		return nil, err
	}
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

// Host is a server of a URL that names several.
type Host struct {
	Name string // host:port
	Pool *Pool
}

// OpenHosts prepares a pool for each host of url. It connects to none of them. A statement does not wait for a host that cannot be
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
		prepareConfig(config, url, opts)
		pool, err := newPool(ctx, config)
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
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	applyDefaults(config.ConnConfig)
	return config.ConnConfig, nil
}

// checkStatementTimeout finds out that a pooler between us and PostgreSQL did not pass on what we asked for, and that
// nothing else limits a statement's time there: what ends a lease in the rate limiter after 30 s counts on it.
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

func prepareConfig(config *pgxpool.Config, url string, opts []Option) {
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = maxConns
	}
	config.PingTimeout = connectTimeout
	capStatements(config.ConnConfig, url)
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap()) // else each id goes through its text
		return nil
	}
	config.ConnConfig.BuildContextWatcherHandler = nil
	for _, opt := range opts {
		opt(config)
	}
	if config.ConnConfig.BuildContextWatcherHandler == nil {
		WithLimits(timelimit.Default)(config)
	}
	applyDefaults(config.ConnConfig)
}

// capStatements bounds what a connection remembers of statements, in whichever way they are sent.
func capStatements(config *pgx.ConnConfig, url string) {
	if !strings.Contains(url, "statement_cache_capacity") {
		config.StatementCacheCapacity = preparedStatements
	}
	if !strings.Contains(url, "description_cache_capacity") {
		config.DescriptionCacheCapacity = preparedStatements
	}
}

func applyDefaults(config *pgx.ConnConfig) {
	for name, value := range map[string]string{
		"application_name": "connect-svc",
		"timezone":         "UTC",
	} {
		setDefault(config, name, value)
	}
}

func setDefault(config *pgx.ConnConfig, name, value string) {
	if _, set := config.RuntimeParams[name]; !set {
		config.RuntimeParams[name] = value
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ConnectError says in one line which database could not be reached, and why. It does not wrap the cause, whose text
// has a line for each address and each way that was tried.
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

// Reason says in one line why a server could not be used.
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

// ClockDifference is how far the clock that decides every expiry is ahead of this machine's, to within half of a round trip.
func ClockDifference(ctx context.Context, pool *Pool) (time.Duration, error) {
	var theirs time.Time
	before := time.Now()
	err := pool.QueryRow(ctx, "select connect_now()").Scan(&theirs)
	return theirs.Sub(before.Add(time.Since(before) / 2)), err
}
