package ratelimit_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"connect-svc/internal/ratelimit"
	"connect-svc/internal/redistest"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	testLimiter(t, func(t *testing.T, servers int, mode clockMode) fleet {
		server := redistest.Start(t)
		f := fleet{newClient: func(testing.TB) uuid.UUID { return uuid.New() }}
		var limiters []*ratelimit.Redis
		for range servers {
			limiter := openRedis(t, server)
			limiters = append(limiters, limiter)
			f.servers = append(f.servers, limiter)
		}
		if mode == frozen {
			f.advance = freezeRedis(t, server, limiters)
		}
		return f
	})
}

// openRedis is a limiter that gives no answer but by the rules, however busy the machine is.
func openRedis(t testing.TB, server *redistest.Server) *ratelimit.Redis {
	t.Helper()
	limiter, err := ratelimit.OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limiter.Close)
	limiter.SetTimeLimit(time.Minute)
	return limiter
}

// ask is a client of the server for the test itself.
func ask(t testing.TB, server *redistest.Server) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// freezeRedis makes the limiters read the clock from a key and returns what moves it.
func freezeRedis(t testing.TB, server *redistest.Server, limiters []*ratelimit.Redis) func(testing.TB, time.Duration) {
	t.Helper()
	client := ask(t, server)
	do := func(t testing.TB, command rueidis.Completed) {
		t.Helper()
		if err := client.Do(context.WithoutCancel(t.Context()), command).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do(t, client.B().Set().Key("clock").Value("1800000000000000").Build())
	for _, limiter := range limiters {
		limiter.SetClock("local instant = tonumber(redis.call('GET', 'clock'))\n")
	}
	return func(t testing.TB, d time.Duration) {
		do(t, client.B().Incrby().Key("clock").Increment(d.Microseconds()).Build())
	}
}

// Decisions, section 5: where nothing can be decided there is an error, in time, and never a free pass. It recovers by
// itself.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter, client := openRedis(t, server), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 2, ConcurrentReads: 10}
	held := admit(t, limiter, client, policy)

	server.Pause(t)
	limiter.SetTimeLimit(100 * time.Millisecond)
	var all sync.WaitGroup
	for range 1000 { // more than can be under way
		all.Go(func() { checkRefusedInTime(t, limiter, client) })
	}
	all.Wait()
	if err := held.Release(t.Context()); err == nil {
		t.Error("Release while the server hangs: no error")
	}
	server.Continue(t)
	recovered(t, limiter, uuid.New())

	server.Kill()
	checkRefusedInTime(t, limiter, client)
	server.Restart(t) // without its scripts
	recovered(t, limiter, uuid.New())
}

// recovered waits until a limiter decides again: the connections that broke are noticed one by one.
func recovered(t *testing.T, limiter *ratelimit.Redis, client uuid.UUID) {
	t.Helper()
	limiter.SetTimeLimit(time.Minute)
	deadline := time.Now().Add(time.Minute)
	for {
		decision, err := limiter.Admit(t.Context(), client, somePolicy)
		if err == nil {
			if !decision.Allowed {
				t.Errorf("after the fault: %+v, want allowed", decision)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still without a decision: %v", err)
		}
	}
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
		start := time.Now()
		limiter, err := ratelimit.OpenRedis(t.Context(), "redis://user:hush@"+addr)
		if err == nil {
			limiter.Close()
			t.Errorf("a server that %s: no error", name)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("a server that %s: the error holds the password", name)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("a server that %s: took %v, want about 2 s", name, took)
		}
	}
}

// A cluster refuses a script whose keys are on different nodes.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	admin := ask(t, server)
	if err := admin.Do(t.Context(), admin.B().ClusterAddslotsrange().StartSlotEndSlot().StartSlotEndSlot(0, 16383).Build()).
		Error(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		info, err := admin.Do(t.Context(), admin.B().ClusterInfo().Build()).ToString()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the cluster is not ready: %v", err)
		}
		if strings.Contains(info, "cluster_state:ok") {
			break
		}
	}
	limiter := openRedis(t, server)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 2, ConcurrentReads: 1}
	for range 20 {
		client := uuid.New()
		first := admit(t, limiter, client, policy)
		if second := admit(t, limiter, client, policy); !first.Allowed || second.Reason != ratelimit.ReasonConcurrency {
			t.Errorf("allowed %t, then %q; want one place", first.Allowed, second.Reason)
		}
		release(t, &first)
	}
}

// A client that rests costs no memory: a missing key is a full bucket.
func TestRedisForgetsWhoRests(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter, client := openRedis(t, server), uuid.New()
	decision := admit(t, limiter, client, ratelimit.Policy{RequestsPerMinute: 60, Burst: 2, ConcurrentReads: 1})
	probe := ask(t, server)
	ttl := func(what string) int64 {
		ms, err := probe.Do(t.Context(), probe.B().Pttl().Key("connect:{"+client.String()+"}:"+what).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	if ms := ttl("bucket"); ms <= 0 || ms > 61_000 {
		t.Errorf("the bucket is kept for %d ms, want 61 s at most", ms)
	}
	if ms := ttl("leases"); ms <= 0 || ms > 30_000 {
		t.Errorf("the leases are kept for %d ms, want 30 s at most", ms)
	}
	release(t, &decision)
	if ms := ttl("leases"); ms != -2 {
		t.Errorf("after the release: %d ms, want no key", ms)
	}
}

func TestCheckRedisURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"redis://localhost:6379":           true,
		"redis://user:hush@valkey:6379/2":  true,
		"rediss://valkey.example":          true,
		"unix:///run/redis.sock":           true,
		"http://localhost:6379":            false,
		"redis://user:hush@valkey:6379/x":  false,
		"redis://user:hush@[valkey:6379/2": false,
		"localhost:6379":                   false,
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

func BenchmarkRedis(b *testing.B) {
	limiter, client := openRedis(b, redistest.Start(b)), uuid.New()
	benchmarkLimiter(b, limiter, client)
}
