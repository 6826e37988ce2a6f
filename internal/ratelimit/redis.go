package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

// Redis keeps buckets and leases in Redis 7 or newer, or in Valkey: one script an admission, one command a release, each
// a round trip. Both keys of a client have its id as their hash tag, so that a cluster keeps them on one node. It is
// safe for concurrent use.
type Redis struct {
	client    rueidis.Client
	admit     *rueidis.Lua
	timeLimit time.Duration
}

// The script's clock is the server's, so that it does not matter what time the service's own machines think it is.
const serverClock = "local clock = redis.call('TIME')\nlocal instant = clock[1] * 1000000 + clock[2]\n"

//go:embed admit.lua
var admitScript string

// CheckRedisURL tells whether url can be that of a server, as in redis://user:password@host:6379/0, rediss:// with TLS,
// or unix:///run/redis.sock. The error does not repeat it.
func CheckRedisURL(url string) error {
	_, err := parseRedisURL(url)
	return err
}

func parseRedisURL(url string) (rueidis.ClientOption, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return rueidis.ClientOption{}, errors.New("ratelimit: redis: not the URL of a server")
	}
	return option, nil
}

// OpenRedis connects to the server at url. All services that name the same server and database share the limits. It
// fails where the server cannot be reached within about two seconds; later on it reconnects by itself. Close it.
func OpenRedis(ctx context.Context, url string) (*Redis, error) {
	option, err := parseRedisURL(url)
	if err != nil {
		return nil, err
	}
	option.DisableRetry = true // an admission that may have been counted is not sent again
	option.DisableCache = true
	option.PipelineMultiplex = 1
	option.ReadBufferEachConn, option.WriteBufferEachConn = 1<<14, 1<<14
	option.RingScaleEachConn = 8 // 256 commands under way on each of two connections, and no memory for 1,024
	option.Dialer.Timeout = timeLimit
	option.ConnWriteTimeout = timeLimit // a connection that does not answer so long is given up
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: redis: %w", err)
	}
	r := &Redis{client, rueidis.NewLuaScript(serverClock + admitScript), timeLimit}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, fmt.Errorf("ratelimit: redis: %w", err)
	}
	return r, nil
}

// Close ends the connections.
func (r *Redis) Close() { r.client.Close() }

// Admit decides one request of a client. It answers within two seconds. An error says that nothing could be decided:
// the server is away or overrun. The request must not go on then.
func (r *Redis) Admit(ctx context.Context, clientID uuid.UUID, policy Policy) (Decision, error) {
	lease, err := uuid.NewRandom()
	if err != nil {
		return Decision{}, fmt.Errorf("ratelimit: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeLimit)
	defer cancel()
	bucket, leases := redisKeys(clientID)
	answer, err := r.admit.Exec(ctx, r.client, []string{bucket, leases}, []string{
		lease.String(),
		strconv.Itoa(policy.RequestsPerMinute),
		strconv.Itoa(policy.Burst),
		strconv.Itoa(policy.ConcurrentReads),
		strconv.FormatInt(LeaseLifetime.Microseconds(), 10),
	}).ToArray()
	if err != nil {
		return Decision{}, fmt.Errorf("ratelimit: admit: %w", err)
	}
	if len(answer) != 3 {
		return Decision{}, fmt.Errorf("ratelimit: admit: %d values", len(answer))
	}
	outcome, err1 := answer[0].ToString()
	remaining, err2 := answer[1].AsInt64()
	reset, err3 := answer[2].AsInt64()
	if err := errors.Join(err1, err2, err3); err != nil {
		return Decision{}, fmt.Errorf("ratelimit: admit: %w", err)
	}
	return decide(outcome, policy, int(remaining), int(reset), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, r.timeLimit)
		defer cancel()
		// The key goes away with its last lease.
		if err := r.client.Do(ctx, r.client.B().Zrem().Key(leases).Member(lease.String()).Build()).Error(); err != nil {
			return fmt.Errorf("ratelimit: release: %w", err)
		}
		return nil
	})
}

func redisKeys(clientID uuid.UUID) (bucket, leases string) {
	tagged := "connect:{" + clientID.String() + "}:"
	return tagged + "bucket", tagged + "leases"
}
