package ratelimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// conns is how many idle connections the tests make: as many as the pool keeps.
const conns = 16

// openIdle opens a store by way of an address that can move, with idle connections to the server, which do not age.
func openIdle(t *testing.T, url string, server *redistest.Server, timeLimit time.Duration) *ratelimit.Redis {
	t.Helper()
	store, err := ratelimit.OpenRedis(t.Context(), url, timeLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	store.After(ratelimit.MaxAge) // the first connection is dialed again, on the clock that stands
	server.Do(t, "CLIENT", "PAUSE", "600000", "WRITE")
	var writing sync.WaitGroup
	for range conns {
		writing.Go(func() { checkSet(t, store) })
	}
	wait.Until(t, "all questions have connections", func() bool {
		clients, err := redis.String(server.Do(t, "CLIENT", "LIST", "TYPE", "normal"), nil)
		return err == nil && strings.Count(clients, "cmd=eval") == conns
	})
	server.Do(t, "CLIENT", "UNPAUSE")
	writing.Wait()
	return store
}

// checkSet stores the text of a new client.
func checkSet(t *testing.T, store *ratelimit.Redis) {
	t.Helper()
	if set, err := store.CompareAndSet(t.Context(), uuid.New(), "", "a text", time.Hour); err != nil || !set {
		t.Errorf("CompareAndSet = %v, %v", set, err)
	}
}

// The address leads to another server, and the old one, which keeps its connections, refuses or hangs. A question that was refused
// is asked again, by a new connection. One without an answer may have happened: it fails, and no other one does.
func TestRedisSwitchover(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		demote func(t *testing.T, old, promoted *redistest.Server)
		fails  int
	}{
		"READONLY": {func(t *testing.T, old, promoted *redistest.Server) { old.Follow(t, promoted) }, 0},
		"MASTERDOWN": {func(t *testing.T, old, _ *redistest.Server) {
			old.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
			old.Do(t, "REPLICAOF", "127.0.0.1", "1")
		}, 0},
		"NOPERM":     {func(t *testing.T, old, _ *redistest.Server) { old.Do(t, "ACL", "SETUSER", "default", "-evalsha") }, 0},
		"NOREPLICAS": {func(t *testing.T, old, _ *redistest.Server) { old.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1") }, 0},
		"ended":      {func(_ *testing.T, old, _ *redistest.Server) { old.Kill() }, 1},
		"hangs":      {func(t *testing.T, old, _ *redistest.Server) { old.Pause(t) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, promoted := redistest.Start(t), redistest.Start(t)
			address := proxytest.New(t)
			store := openIdle(t, address.Open(t, old.URL()), old, wait.Patient.Limiter)
			address.Open(t, promoted.URL())
			tt.demote(t, old, promoted)
			store.After(ratelimit.RedialAfter)
			for range tt.fails {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if set, err := store.CompareAndSet(ctx, uuid.New(), "", "a text", time.Hour); err == nil {
					t.Errorf("CompareAndSet by an old connection = %v", set)
				}
			}
			for range 35 {
				checkSet(t, store)
			}
		})
	}
}

// The address leads to another server, and the old one goes on as a master, as one that nobody could reach to demote it: it is asked for a
// while, and then the other one.
func TestRedisAddressMoves(t *testing.T) {
	t.Parallel()
	old, promoted := redistest.Start(t), redistest.Start(t)
	address := proxytest.New(t)
	store := openIdle(t, address.Open(t, old.URL()), old, wait.Patient.Limiter)
	address.Open(t, promoted.URL())
	store.After(ratelimit.MaxAge)
	for range 35 {
		checkSet(t, store)
	}
	for server, want := range map[*redistest.Server]int{old: conns, promoted: 35} {
		if keys, err := redis.Int(server.Do(t, "DBSIZE"), nil); err != nil || keys != want {
			t.Errorf("%d keys, %v; want %d", keys, err, want)
		}
	}
}

// refuser is a server that answers everything with one error. It counts its connections. It is for errors that a real server gives in states
// that a test cannot bring about.
func refuser(t *testing.T, answer string) (url string, dialed *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	dialed = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			go func() {
				defer conn.Close()
				commands := bufio.NewReader(conn)
				for {
					head, err := commands.ReadString('\n') // RESP: *N, and N times a length and a text
					if err != nil {
						return
					}
					n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
					for range 2 * n {
						if _, err := commands.ReadString('\n'); err != nil {
							return
						}
					}
					reply := "-" + answer
					if n == 1 { // PING
						reply = "+PONG"
					}
					_, _ = io.WriteString(conn, reply+"\r\n")
				}
			}()
		}
	}()
	return "redis://" + listener.Addr().String(), dialed
}

// Any refusal ends a connection of some age, and no younger one: a server that refuses is not dialed all the time.
// A refusal that any server would give ends none.
func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	for answer, ends := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                       true,
		"LOADING Redis is loading the dataset in memory":                                              true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":            true,
		"MOVED 3999 127.0.0.1:6381":                                                                   true,
		"CLUSTERDOWN The cluster is down":                                                             true,
		"NOAUTH Authentication required.":                                                             true,
		"ERR wrong number of arguments for 'set' command":                                             true,
		"ERR Error running script: @user_script: 5: -READONLY You can't write against a read replica": true,
		"OOM command not allowed when used memory > 'maxmemory'.":                                     false,
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			url, dialed := refuser(t, answer)
			store, err := ratelimit.OpenRedis(t.Context(), url, wait.Patient.Limiter)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			ask := func(want int64) {
				t.Helper()
				for range 3 {
					if err := store.Check(t.Context()); err == nil || !strings.Contains(err.Error(), answer) {
						t.Errorf("Check = %v", err)
					}
					if got := dialed.Load(); got != want {
						t.Errorf("%d connections, want %d", got, want)
					}
				}
			}
			opened := time.Now()
			store.At(func() time.Time { return began }) // the connection has no age yet
			ask(1)
			store.At(func() time.Time { return opened.Add(ratelimit.RedialAfter) })
			if ends {
				ask(2)
			} else {
				ask(1)
			}
		})
	}
}

// A caller that leaves ends the connection that it waits for, and no other one.
func TestRedisCallerLeaves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	address := proxytest.New(t)
	store := openIdle(t, address.Open(t, server.URL()), server, wait.Patient.Limiter)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, _ = store.CompareAndSet(ctx, uuid.New(), "", "a text", time.Hour)
	address.Close() // a new connection would fail
	for range 35 {
		checkSet(t, store)
	}
}

// A full server refuses each decision, which is an error and no free pass. Its connections stay, and it decides again once it has room.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	address := proxytest.New(t)
	store := openIdle(t, address.Open(t, server.URL()), server, wait.Patient.Limiter)
	limiter := patient(store)
	admit(t, limiter, uuid.New(), somePolicy, start)
	address.Close()
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	store.After(ratelimit.RedialAfter)
	for range 35 {
		checkRefused(t, limiter, uuid.New())
	}
	if err := limiter.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Check of a full server = %v", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	if decision := admit(t, limiter, uuid.New(), somePolicy, start); !decision.Allowed {
		t.Errorf("with room again: %+v", decision)
	}
	if err := limiter.Check(t.Context()); err != nil {
		t.Errorf("Check with room again = %v", err)
	}
}

// A server that takes no decision is not in order, although it answers. Check leaves nothing behind.
func TestRedisCheck(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	replica.Follow(t, master)
	if err := openRedis(t, replica).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("Check of a replica = %v", err)
	}
	if err := openRedis(t, master).Check(t.Context()); err != nil {
		t.Errorf("Check of the master = %v", err)
	}
	if keys, err := redis.Int(master.Do(t, "DBSIZE"), nil); err != nil || keys != 0 {
		t.Errorf("Check left %d keys, %v", keys, err)
	}
}

// A user of Redis's access control who may use nothing but what the limiter needs.
func TestRedisUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "limiter", "on", ">s3cr@t/%", "~connect:*", "+ping", "+get", "+set", "+eval", "+evalsha", "+select")
	server.Do(t, "ACL", "SETUSER", "default", "off")
	limiter := patient(openAs(t, server, url.UserPassword("limiter", "s3cr@t/%")))
	if decision := admit(t, limiter, uuid.New(), somePolicy, start); !decision.Allowed {
		t.Errorf("%+v", decision)
	}
	if err := limiter.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := limiter.Store(t.Context()); err != nil {
		t.Error(err)
	}
	for _, user := range []*url.Userinfo{nil, url.UserPassword("limiter", "wrong"), url.User("limiter")} {
		at := url.URL{Scheme: "redis", User: user, Host: server.Addr}
		if store, err := ratelimit.OpenRedis(t.Context(), at.String(), wait.Patient.Limiter); err == nil {
			store.Close()
			t.Errorf("somebody who is not the user is let in: %s", user)
		}
	}
}

// openAs opens a store as a user.
func openAs(t *testing.T, server *redistest.Server, user *url.Userinfo) *ratelimit.Redis {
	t.Helper()
	at := url.URL{Scheme: "redis", User: user, Host: server.Addr, Path: "/2"}
	store, err := ratelimit.OpenRedis(t.Context(), at.String(), wait.Patient.Limiter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// Sentinel promotes the replica, and what the address leads to follows. Sentinel ends the old master's connections.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	old, promoted := redistest.Start(t), redistest.Start(t)
	promoted.Follow(t, old)
	sentinel := redistest.StartSentinel(t, old)
	address := proxytest.New(t)
	limiter, client := patient(openIdle(t, address.Open(t, old.URL()), old, wait.Patient.Limiter)), uuid.New()
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 1, ConcurrentReads: 10}
	admit(t, limiter, client, policy, start)
	wait.Until(t, "the replica has the client's state", func() bool {
		there, err := redis.Int(promoted.Do(t, "EXISTS", "connect:limit:"+client.String()), nil)
		return err == nil && there == 1
	})
	sentinel.Failover(t)
	address.Open(t, promoted.URL())
	recovered(t, limiter, uuid.New())
	another := patient(openStore(t, promoted)) // it has no memory of its own
	if decision := admit(t, another, client, policy, start); decision.Allowed {
		t.Errorf("after the switchover the client's bucket is full again: %+v", decision)
	}
}
