// Package redistest starts a Redis for a test: a process of its own, on a free port of the loopback interface, with
// nothing on disk. It is for tests only.
package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/wait"
)

// Server is a running Redis. It ends with the test. A restart loses what it held.
type Server struct {
	*process.Server
	Addr   string // host:port
	Port   string
	Socket string // of the same server, in the file system, which needs no TLS
}

// URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Start runs a server. The arguments are added to its command line, such as "--maxmemory", "2mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, func(port string) []string { return append([]string{"--port", port}, args...) })
}

// StartTLS runs a server that speaks TLS alone, with a certificate and its key in PEM files.
func StartTLS(t testing.TB, certificate, key string) *Server {
	t.Helper()
	return start(t, func(port string) []string {
		return []string{"--port", "0", "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"}
	})
}

func start(t testing.TB, args func(port string) []string) *Server {
	t.Helper()
	s := &Server{Socket: filepath.Join(t.TempDir(), "redis.sock")}
	s.Server = process.Start(t, func(port string) process.Config {
		s.Addr, s.Port = net.JoinHostPort("127.0.0.1", port), port
		common := []string{"--bind", "127.0.0.1", "--save", "", "--unixsocket", s.Socket,
			"--dir", t.TempDir(), "--loglevel", "warning", "--repl-diskless-sync-delay", "0"}
		return process.Config{Args: append(common, args(port)...), Ready: s.ping}
	}, "redis-server", "valkey-server")
	return s
}

// ping returns nil if the server answers, even if it says that somebody has to log in.
func (s *Server) ping(ctx context.Context) error {
	conn, err := redis.DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = redis.DoContext(conn, ctx, "PING")
	if refused, answered := errors.AsType[redis.Error](err); answered && strings.HasPrefix(string(refused), "NOAUTH") {
		return nil
	}
	return err
}

// Dial returns a connection to the server for the test itself.
func (s *Server) Dial(t testing.TB) redis.Conn {
	t.Helper()
	conn, err := redis.Dial("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Do sends a command to the server.
func (s *Server) Do(t testing.TB, command string, args ...any) any {
	t.Helper()
	reply, err := s.Dial(t).Do(command, args...)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return reply
}

// Follow makes the server a replica of another one, and returns when it has the other one's data.
func (s *Server) Follow(t testing.TB, master *Server) {
	t.Helper()
	s.Do(t, "REPLICAOF", "127.0.0.1", master.Port)
	wait.Until(t, "the replica has the data", func() bool {
		state, err := redis.String(s.Do(t, "INFO", "replication"), nil)
		return err == nil && strings.Contains(state, "master_link_status:up")
	})
}

// Sentinel is a running Sentinel, which watches one master by the name "limiter".
type Sentinel struct{ *Server }

// StartSentinel runs a Sentinel that alone decides about the master.
func StartSentinel(t testing.TB, master *Server) Sentinel {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	err := os.WriteFile(file, []byte("sentinel monitor limiter 127.0.0.1 "+master.Port+" 1\n"+
		"sentinel down-after-milliseconds limiter 60000\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := Sentinel{&Server{Socket: filepath.Join(t.TempDir(), "sentinel.sock")}}
	s.Server.Server = process.Start(t, func(port string) process.Config {
		s.Addr, s.Port = net.JoinHostPort("127.0.0.1", port), port
		return process.Config{Args: []string{file, "--sentinel", "--bind", "127.0.0.1", "--port", port, "--unixsocket", s.Socket}, Ready: s.ping}
	}, "redis-server", "valkey-server")
	return s
}

// Failover has Sentinel promote the replica, and returns when it names it as the master.
func (s Sentinel) Failover(t testing.TB) {
	t.Helper()
	conn := s.Dial(t)
	master := func() string {
		address, err := redis.Strings(conn.Do("SENTINEL", "get-master-addr-by-name", "limiter"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(address, ":")
	}
	old := master()
	wait.Until(t, "Sentinel finds the replica fit", func() bool {
		_, err := conn.Do("SENTINEL", "FAILOVER", "limiter")
		return err == nil
	})
	wait.Until(t, "Sentinel names another master", func() bool { return master() != old })
}
