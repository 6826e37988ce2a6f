package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"connect-svc/internal/network"
)

// Redis stores the texts in Redis 7 or newer, or in Valkey. It is safe for concurrent use.
type Redis struct{ pool *redis.Pool }

const (
	// maxConns bounds the concurrent questions. Others wait for a connection, as long as their time allows.
	maxConns = 64
	// maxIdle bounds the idle connections.
	maxIdle = 16
	// trustFor is how long an idle connection is used without a PING.
	trustFor = time.Second
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
	return func(ctx context.Context, options ...redis.DialOption) (redis.Conn, error) {
		return redis.DialURLContext(ctx, raw, options...)
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
	r := &Redis{&redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return dial(ctx, redis.DialConnectTimeout(timeLimit), redis.DialTLSHandshakeTimeout(timeLimit),
				redis.DialReadTimeout(timeLimit), redis.DialWriteTimeout(timeLimit))
		},
		TestOnBorrowContext: func(ctx context.Context, conn redis.Conn, used time.Time) error {
			if time.Since(used) < trustFor {
				return nil
			}
			_, err := redis.DoContext(conn, ctx, "PING")
			return err
		},
		MaxActive: maxConns,
		MaxIdle:   maxIdle,
		Wait:      true,
	}}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if _, err := r.do(ctx, "PING"); err != nil {
		r.Close()
		return nil, fmt.Errorf("ratelimit: redis: %w", err)
	}
	return r, nil
}

// Close closes the connections.
func (r *Redis) Close() { _ = r.pool.Close() }

func (r *Redis) do(ctx context.Context, command string, args ...any) (any, error) {
	conn, err := r.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return redis.DoContext(conn, ctx, command, args...)
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
	conn, err := r.pool.GetContext(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	set, err := redis.Int(compareAndSet.DoContext(ctx, conn, redisKey(clientID), old, next, until.Milliseconds()+graceMilliseconds))
	return set == 1, err
}

// graceMilliseconds is added to the lifetime of a text, because the clocks of the database and of Redis may differ.
const graceMilliseconds = 60_000

func redisKey(clientID uuid.UUID) string { return "connect:limit:" + clientID.String() }
