// Package redistest starts a Redis for a test: a process of its own, on a free port of the loopback interface, with
// nothing on disk. It is for tests only.
package redistest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"connect-svc/internal/testing/process"
)

// Server is a running Redis. It ends with the test. A restart loses what it held.
type Server struct {
	*process.Server
	Addr string // host:port
}

// URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Start runs a server.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	s.Server = process.Start(t, func(port string) process.Config {
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		args := []string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir(), "--loglevel", "warning"}
		return process.Config{Args: args, Ready: s.ping}
	}, "redis-server", "valkey-server")
	return s
}

func (s *Server) ping(ctx context.Context) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, Dialer: net.Dialer{Timeout: time.Second},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}
