// Package redistest starts a Redis for a test: a process of its own, on a free port of the loopback interface, with
// nothing on disk. It is for tests only.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Server is a running Redis. It ends with the test.
type Server struct {
	Addr string // host:port
	args []string

	process *exec.Cmd
	stopped chan struct{}
}

// URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Start runs a server with settings of redis-server's command line, as in "--cluster-enabled", "yes".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	// Another process may take the port before Redis does: then it ends at once, and another port is tried.
	var err error
	for range 5 {
		var addr, port string
		if addr, port, err = freePort(); err != nil {
			break
		}
		s := &Server{Addr: addr, args: append([]string{
			"--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir(), "--loglevel", "warning",
		}, settings...)}
		if err = s.start(); err == nil {
			t.Cleanup(s.kill)
			return s
		}
	}
	t.Fatalf("redis-server: %v", err)
	return nil
}

// Restart kills the server as a crash would, and starts it anew on the same address, without what it held.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.kill()
	if err := s.start(); err != nil {
		t.Fatalf("redis-server: %v", err)
	}
}

// Kill ends the server at once.
func (s *Server) Kill() { s.kill() }

// Pause lets the server hang until Continue: it accepts connections and does not answer.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue ends a pause.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		t.Fatalf("redis-server: %v", err)
	}
}

func (s *Server) start() error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if program, err = exec.LookPath("valkey-server"); err != nil {
			return errors.New("not found: make tools installs it, or says what to install")
		}
	}
	var output bytes.Buffer
	process := exec.Command(program, s.args...)
	process.Stdout, process.Stderr = &output, &output
	if err := process.Start(); err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		_ = process.Wait() // it is killed, or its output says why it ended
		close(stopped)
	}()
	s.process, s.stopped = process, stopped
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for !s.answers(ctx) {
		select {
		case <-stopped:
			return fmt.Errorf("ended: %s", output.String())
		case <-ctx.Done():
			s.kill()
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// answers tells whether the server has begun to serve.
func (s *Server) answers(ctx context.Context) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 7)
	n, _ := conn.Read(answer)
	return string(answer[:n]) == "+PONG\r\n"
}

func (s *Server) kill() {
	_ = s.process.Process.Kill() // it may have ended
	<-s.stopped
}

func freePort() (addr, port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer listener.Close()
	addr = listener.Addr().String()
	_, port, err = net.SplitHostPort(addr)
	return addr, port, err
}
