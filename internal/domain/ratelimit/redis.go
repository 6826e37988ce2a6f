package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/network"
)

// Redis stores the texts in Redis 7 or newer, or in Valkey. It is safe for concurrent use.
type Redis struct {
	pool *redis.Pool
	// reign is the number of the server behind the address, as far as this program has noticed that it is another one.
	reign atomic.Uint64
	now   func() time.Time
}

const (
	// redialAfter is how old a connection is, at least, that a refusal ends. It bounds how often a server that refuses is dialed.
	redialAfter = 500 * time.Millisecond
	// maxAge is how old a connection gets. The address may lead to another server by then, although nothing is wrong with this one.
	maxAge = 10 * time.Second
)

// compareAndSet stores ARGV[2] for ARGV[3] milliseconds if the key holds ARGV[1]. A missing key is the empty text.
var compareAndSet = redis.NewScript(1, `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)

// CheckRedisURL reports whether url is the URL of a server: rediss://user:password@host:6379/0 with verified TLS,
// unix:///run/redis.sock, or redis:// without TLS, which must name this machine or have ?tls=off. The error does not repeat the URL.
func CheckRedisURL(url string) error {
	_, err := parseRedisURL(url)
	return err
}

type redisDialer func(context.Context, ...redis.DialOption) (redis.Conn, error)

func parseRedisURL(raw string) (redisDialer, error) {
	parsed, err := url.Parse(raw)
	if err != nil {
		return nil, errRedisURL
	}
	switch name := strings.TrimPrefix(parsed.Path, "/"); {
	case parsed.Scheme == "unix" && parsed.Host == "" && name != "":
		return dialSocket(parsed)
	case parsed.Scheme != "redis" && parsed.Scheme != "rediss", parsed.Host == "", strings.Trim(name, "0123456789") != "":
		return nil, errRedisURL
	}
	// The dialer ignores the query.
	switch asked := parsed.Query()["tls"]; {
	case len(asked) > 0 && (parsed.Scheme == "rediss" || !slices.Equal(asked, []string{"off"})):
		return nil, errRedisURL
	case len(asked) == 0 && parsed.Scheme == "redis" && !isLoopback(parsed):
		return nil, errRedisInClear
	}
	parsed.Host = net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "6379")) // the dialer adds no port to the brackets of an IPv6 address
	return func(ctx context.Context, options ...redis.DialOption) (redis.Conn, error) {
		return redis.DialURLContext(ctx, parsed.String(), options...)
	}, nil
}

// dialSocket connects to unix://user:password@/path?db=number.
func dialSocket(at *url.URL) (redisDialer, error) {
	database, err := strconv.ParseUint(cmp.Or(at.Query().Get("db"), "0"), 10, 31)
	if err != nil {
		return nil, errRedisURL
	}
	password, _ := at.User.Password()
	return func(ctx context.Context, options ...redis.DialOption) (redis.Conn, error) {
		return redis.DialContext(ctx, "unix", at.Path, append(options,
			redis.DialUsername(at.User.Username()), redis.DialPassword(password), redis.DialDatabase(int(database)))...)
	}, nil
}

var (
	errRedisURL     = errors.New("is not the URL of a Redis or Valkey server")
	errRedisInClear = errors.New("names another machine without TLS: say rediss://, or ?tls=off on a network that is safe")
)

// isLoopback reports whether the URL names this machine, as one without a host does.
func isLoopback(at *url.URL) bool { return network.IsLoopback(cmp.Or(at.Hostname(), "localhost")) }

// RedisSecurity describes in a few words how the connection to the server at url is protected.
func RedisSecurity(raw string) string {
	parsed, err := url.Parse(raw)
	switch {
	case err != nil:
		return ""
	case parsed.Scheme == "unix" || isLoopback(parsed):
		return "stays on this machine"
	case parsed.Scheme == "rediss":
		return "TLS is verified"
	}
	return "TLS is not verified (tls=off)"
}

// OpenRedis connects to the server at url. All services with the same server and database share the limits. It fails if the server
// cannot be reached within timeLimit; later it reconnects by itself, and drops a connection that does not answer within that time. The
// caller must close it.
func OpenRedis(ctx context.Context, url string, timeLimit time.Duration) (*Redis, error) {
	dial, err := parseRedisURL(url)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: the address %w", err)
	}
	r := &Redis{now: time.Now}
	r.pool = &redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			reign, handshake := r.reign.Load(), timeLimit
			if end, limited := ctx.Deadline(); limited {
				handshake = min(handshake, time.Until(end)) // it does not look at ctx
			}
			dialed, err := dial(ctx, redis.DialConnectTimeout(timeLimit), redis.DialTLSHandshakeTimeout(handshake),
				redis.DialReadTimeout(timeLimit), redis.DialWriteTimeout(timeLimit))
			if err != nil {
				return nil, err
			}
			return &connection{ConnWithContext: dialed.(redis.ConnWithContext), store: r, reign: reign, dialed: r.now()}, nil
		},
		TestOnBorrowContext: func(ctx context.Context, conn redis.Conn, used time.Time) error {
			if c := conn.(*connection); c.reign != r.reign.Load() || r.now().Sub(c.dialed) >= maxAge {
				return errors.New("ratelimit: redis: the address may lead to another server")
			}
			if time.Since(used) < time.Second {
				return nil
			}
			_, err := redis.DoContext(conn, ctx, "PING")
			return err
		},
		MaxActive: 64, // further questions wait for a connection, as long as their time allows
		MaxIdle:   16,
		Wait:      true,
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if _, err := r.do(ctx, "PING"); err != nil {
		r.Close()
		return nil, fmt.Errorf("ratelimit: redis: %w", err)
	}
	return r, nil
}

// connection is a connection to a server. The address may lead to another server while this one lives on, and keeps its connections: after
// a switchover the old master is a replica. It refuses what it is asked, or does not answer, and a new connection leads to the new one. An
// old master that nobody has demoted would take decisions of its own, so no connection gets older than [maxAge].
type connection struct {
	redis.ConnWithContext
	store  *Redis
	reign  uint64
	dialed time.Time
	ended  error // why the pool must close it
}

// DoContext ends the connection, and with it those that are as old, if the answer suggests that there is another server.
func (c *connection) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	reply, err := c.ConnWithContext.DoContext(ctx, command, args...)
	if refusal, answered := errors.AsType[redis.Error](err); answered {
		// Any server lacks a script that it was never told, and what is full stays so: compareAndSet tells it, and the question fails.
		code, _, _ := strings.Cut(string(refusal), " ")
		if code == "NOSCRIPT" || code == "OOM" || c.store.now().Sub(c.dialed) < redialAfter {
			return reply, err
		}
	} else if err == nil || errors.Is(err, context.Canceled) { // a caller that leaves says nothing of the server
		return reply, err
	}
	c.ended = err
	c.store.reign.CompareAndSwap(c.reign, c.reign+1)
	return reply, err
}

// Err returns why the connection cannot be used.
func (c *connection) Err() error { return cmp.Or(c.ended, c.ConnWithContext.Err()) }

// Close closes the connections.
func (r *Redis) Close() { _ = r.pool.Close() }

// ask asks a question. A refusal that ended its connection changed nothing, so the question is asked again, by another connection.
func (r *Redis) ask(ctx context.Context, question func(redis.Conn) (any, error)) (any, error) {
	for {
		conn, err := r.pool.GetContext(ctx)
		if err != nil {
			return nil, err
		}
		reply, err := question(conn)
		_, refused := errors.AsType[redis.Error](err)
		again := refused && conn.Err() != nil
		_ = conn.Close() // to the pool
		if !again {
			return reply, err
		}
	}
}

func (r *Redis) do(ctx context.Context, command string, args ...any) (any, error) {
	return r.ask(ctx, func(conn redis.Conn) (any, error) { return redis.DoContext(conn, ctx, command, args...) })
}

// Check implements [Store]. The server must accept what changes data, as a replica does not, but this changes nothing: the key is not there.
func (r *Redis) Check(ctx context.Context) error {
	_, err := r.do(ctx, "SET", "connect:limiter:check", "", "XX")
	return err
}

// ID implements [Store]. The store holds its id, because servers may reach one store by several addresses, and several stores by one.
func (r *Redis) ID(ctx context.Context) (string, error) {
	const key = "connect:limiter"
	if _, err := r.do(ctx, "SET", key, uuid.NewString(), "NX"); err != nil {
		return "", err
	}
	id, err := redis.String(r.do(ctx, "GET", key))
	return "Redis " + id, err
}

// Load implements [Store].
func (r *Redis) Load(ctx context.Context, clientID uuid.UUID) (string, error) {
	stored, err := redis.String(r.do(ctx, "GET", redisKey(clientID)))
	if errors.Is(err, redis.ErrNil) {
		return "", nil
	}
	return stored, err
}

// CompareAndSet implements [Store].
func (r *Redis) CompareAndSet(ctx context.Context, clientID uuid.UUID, old, next string, until time.Duration) (bool, error) {
	set, err := redis.Int(r.ask(ctx, func(conn redis.Conn) (any, error) {
		lives := until + time.Minute // because the clocks of the database and of Redis may differ
		return compareAndSet.DoContext(ctx, conn, redisKey(clientID), old, next, lives.Milliseconds())
	}))
	return set == 1, err
}

func redisKey(clientID uuid.UUID) string { return "connect:limit:" + clientID.String() }
