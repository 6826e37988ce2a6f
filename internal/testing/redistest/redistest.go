// Package redistest starts a Redis for a test: a process of its own, on a free port of the loopback interface, with
// nothing on disk. It is for tests only.
package redistest

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/gomodule/redigo/redis"

	"connect-svc/internal/testing/process"
)

// Server is a running Redis. It ends with the test. A restart loses what it held.
type Server struct {
	*process.Server
	Addr   string // host:port
	Socket string // of the same server, in the file system
}

// URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Start runs a server.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Socket: filepath.Join(t.TempDir(), "redis.sock")}
	s.Server = process.Start(t, func(port string) process.Config {
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		args := []string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--unixsocket", s.Socket,
			"--dir", t.TempDir(), "--loglevel", "warning"}
		return process.Config{Args: args, Ready: s.ping}
	}, "redis-server", "valkey-server")
	return s
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := redis.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = redis.DoContext(conn, ctx, "PING")
	return err
}
