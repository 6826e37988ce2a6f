package ratelimit_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T, servers int) fleet {
		server := redistest.Start(t)
		f := fleet{store: openStore(t, server), newClient: func(testing.TB) uuid.UUID { return uuid.New() }}
		for range servers {
			f.servers = append(f.servers, openRedis(t, server))
		}
		return f
	})
}

// openRedis is a limiter that gives no answer but by the rules, however busy the machine is.
func openRedis(t testing.TB, server *redistest.Server) *ratelimit.Limiter {
	t.Helper()
	return patient(openStore(t, server))
}

func openStore(t testing.TB, server *redistest.Server) *ratelimit.Redis {
	t.Helper()
	store, err := ratelimit.OpenRedis(t.Context(), server.URL(), wait.Patient.Limiter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// Every form of the URL leads to the database that it names.
func TestRedisURLs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for url, database := range map[string]string{
		server.URL():                                 "0",
		server.URL() + "/2":                          "2",
		"unix://" + server.Socket + "?db=3":          "3",
		"unix://default:@" + server.Socket + "?db=4": "4",
	} {
		store, err := ratelimit.OpenRedis(t.Context(), url, wait.Patient.Limiter)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		if set, err := store.CompareAndSet(t.Context(), uuid.New(), "", "kept", time.Hour); err != nil || !set {
			t.Errorf("%s: %v, %v", url, set, err)
		}
		probe := server.Dial(t)
		if _, err := probe.Do("SELECT", database); err != nil {
			t.Fatal(err)
		}
		if keys, err := redis.Int(probe.Do("DBSIZE")); err != nil || keys != 1 {
			t.Errorf("%s: %d keys in database %s, %v", url, keys, database, err)
		}
	}
}

// Decisions, section 5: where nothing can be decided there is an error, and never a free pass. It recovers by itself. How soon
// the error comes is measured by the timed tests.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter, client := openRedis(t, server), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 2, ConcurrentReads: 10}
	held := admit(t, limiter, client, policy, start)

	server.Pause(t)
	limiter.SetTimeLimit(100 * time.Millisecond)
	var all sync.WaitGroup
	for range 1000 { // more than can be under way
		all.Go(func() { checkRefused(t, limiter, client) })
	}
	all.Wait()
	if err := held.Release(t.Context()); err == nil {
		t.Error("Release while the server hangs: no error")
	}
	server.Continue(t)
	recovered(t, limiter, uuid.New())

	server.Kill()
	checkRefused(t, limiter, client)
	server.Restart(t) // without its scripts
	recovered(t, limiter, uuid.New())
}

// recovered waits until a limiter decides again: the connections that broke are noticed one by one.
func recovered(t *testing.T, limiter *ratelimit.Limiter, client uuid.UUID) {
	t.Helper()
	limiter.SetTimeLimit(wait.Patient.Limiter)
	wait.Until(t, "the limiter decides again", func() bool {
		decision, err := limiter.Admit(t.Context(), client, somePolicy, start)
		if err == nil && !decision.Allowed {
			t.Errorf("after the fault: %+v, want allowed", decision)
		}
		return err == nil
	})
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	server := redistest.Start(t)
	server.Kill()
	for name, addr := range map[string]string{"refuses": server.Addr, "never answers": silent.Addr().String()} {
		limiter, err := ratelimit.OpenRedis(t.Context(), "redis://user:hush@"+addr, 200*time.Millisecond)
		if err == nil {
			limiter.Close()
			t.Errorf("a server that %s: no error", name)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("a server that %s: the error holds the password", name)
		}
	}
}

// A server that hangs before TLS takes no more than its time from a caller who has less than a question may take: the library does not look at
// the context then.
func TestRedisHangsBeforeTLS(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	const limit = 30 * time.Second
	began := time.Now()
	if limiter, err := ratelimit.OpenRedis(ctx, "rediss://"+silent.Addr().String(), limit); err == nil {
		limiter.Close()
		t.Error("no error")
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("it took %s", took)
	}
}

// A client that rests costs no memory: a missing key is a full bucket.
func TestRedisForgetsWhoRests(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter, client := openRedis(t, server), uuid.New()
	decision := admit(t, limiter, client, ratelimit.Policy{RequestsPerMinute: 60, Burst: 2, ConcurrentReads: 1}, start)
	probe := server.Dial(t)
	for _, most := range []int64{91_000, 61_000} { // a lease lasts longer than the bucket takes to fill
		ms, err := redis.Int64(probe.Do("PTTL", "connect:limit:"+client.String()))
		if err != nil || ms <= 0 || ms > most {
			t.Errorf("the state is kept for %d ms, %v; want %d at most", ms, err, most)
		}
		release(t, &decision)
	}
}

func TestCheckRedisURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"redis://localhost:6379":                  true,
		"redis://127.0.0.1/1":                     true,
		"redis://:6379":                           true,
		"redis://[::1]:6379":                      true,
		"redis://[::1]/1":                         true,
		"redis://user:hush@valkey:6379/2?tls=off": true,
		"redis://user:hush@localhost/2?tls=off":   true,
		"rediss://valkey.example":                 true,
		"rediss://localhost":                      true,
		"unix:///run/redis.sock":                  true,
		"unix:///run/redis.sock?db=2":             true,
		"redis://user:hush@valkey:6379/2":         false,
		"redis://10.0.0.7":                        false,
		"redis://user:hush@valkey?tls=on":         false,
		"redis://user:hush@valkey?tls=":           false,
		"redis://valkey?tls=off&tls=on":           false,
		"rediss://valkey?tls=off":                 false,
		"unix:///run/redis.sock?db=x":             false,
		"unix://":                                 false,
		"http://localhost:6379":                   false,
		"redis://user:hush@localhost:6379/x":      false,
		"redis://user:hush@[localhost:6379/2":     false,
		"localhost:6379":                          false,
	} {
		err := ratelimit.CheckRedisURL(url)
		if (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error holds the password", url)
		}
	}
}

// The port may be missing behind an IPv6 address, as behind any host.
func TestRedisAtAnIPv6Address(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	store, err := ratelimit.OpenRedis(ctx, "redis://[::1]", time.Second)
	if err == nil {
		store.Close() // somebody serves there
	}
	if err != nil && strings.Contains(err.Error(), "address") && !strings.Contains(err.Error(), "[::1]:6379") {
		t.Error(err)
	}
}

// A server elsewhere is reached by TLS that is verified, or as its URL says.
func TestRedisSecurity(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://127.0.0.1:6379":     "stays on this machine",
		"redis://:6379":              "stays on this machine",
		"rediss://localhost":         "stays on this machine",
		"unix:///run/redis.sock":     "stays on this machine",
		"rediss://u:p@valkey:6379/2": "TLS is verified",
		"redis://valkey?tls=off":     "TLS is not verified (tls=off)",
	} {
		if got := ratelimit.RedisSecurity(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func BenchmarkRedis(b *testing.B) {
	limiter, client := openRedis(b, redistest.Start(b)), uuid.New()
	benchmarkLimiter(b, limiter, client)
}

// Servers that reach one Redis by several addresses share its id, also over a restart without data, and another Redis has another id.
func TestRedisIsKnownByItsID(t *testing.T) {
	t.Parallel()
	one, another := redistest.Start(t), redistest.Start(t)
	id := func(limiter *ratelimit.Limiter) string {
		t.Helper()
		id, err := limiter.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b := openRedis(t, one), openRedis(t, one)
	first := id(a)
	if id(b) != first || id(openRedis(t, another)) == first {
		t.Error("the id is not that of the store")
	}
	one.Do(t, "FLUSHALL")
	if second := id(a); second == first || id(b) != second {
		t.Error("after a loss of the data the servers do not agree on an id")
	}
}
