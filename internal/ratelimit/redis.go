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

// Redis keeps the texts in Redis 7 or newer, or in Valkey. It is safe for concurrent use.
type Redis struct {
	client        rueidis.Client
	compareAndSet *rueidis.Lua
}

// compareAndSet keeps ARGV[2] for ARGV[3] milliseconds where ARGV[1] is kept. A missing key is the empty text.
const compareAndSet = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

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
// fails where the server cannot be reached within about timeLimit; later on it reconnects by itself. A connection that does not
// answer so long is given up. Close it.
func OpenRedis(ctx context.Context, url string, timeLimit time.Duration) (*Redis, error) {
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
	option.ConnWriteTimeout = timeLimit
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, fmt.Errorf("ratelimit: redis: %w", err)
	}
	return &Redis{client, rueidis.NewLuaScript(compareAndSet)}, nil
}

// Close ends the connections.
func (r *Redis) Close() { r.client.Close() }

// Load implements [Store].
func (r *Redis) Load(ctx context.Context, clientID uuid.UUID) (string, error) {
	kept, err := r.client.Do(ctx, r.client.B().Get().Key(redisKey(clientID)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return kept, err
}

// CompareAndSet implements [Store].
func (r *Redis) CompareAndSet(ctx context.Context, clientID uuid.UUID, old, next string, until time.Duration) (bool, error) {
	milliseconds := strconv.FormatInt(until.Milliseconds()+graceMilliseconds, 10)
	set, err := r.compareAndSet.Exec(ctx, r.client, []string{redisKey(clientID)}, []string{old, next, milliseconds}).AsInt64()
	return set == 1, err
}

// graceMilliseconds is how much longer a text is kept than it says something, since the clocks of the database and of
// Redis may differ.
const graceMilliseconds = 60_000

func redisKey(clientID uuid.UUID) string { return "connect:limit:" + clientID.String() }
