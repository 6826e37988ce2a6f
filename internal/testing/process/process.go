// Package process runs a server program for a test. It is for tests only.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"connect-svc/internal/testing/wait"
)

// Server is a program that listens on a free port of the loopback interface. It ends with the test.
type Server struct {
	program string
	config  Config
	command *exec.Cmd
	ended   chan struct{}
}

// Config is how a program starts.
type Config struct {
	Args  []string
	Ready func(context.Context) error // nil once the program serves
}

// Start runs the first of the programs that there is, and returns when it is ready. Each is a name to look for in PATH, or a
// path. A test without the program fails.
func Start(t testing.TB, configure func(port string) Config, programs ...string) *Server {
	t.Helper()
	s := &Server{}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil && s.program == "" {
			s.program = path
		}
	}
	if s.program == "" {
		t.Fatalf("%s not found: make tools installs it, or says what to install", programs[0])
	}
	// Another process may take the port before the program does: then it ends at once, and another port is tried.
	var err error
	for range 5 {
		s.config = configure(freePort(t))
		if err = s.start(); err == nil {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatalf("%s: %v", programs[0], err)
	return nil
}

// Rebind calls what listens on a port that was closed a moment ago, again while the port is taken, for [wait.Limit] at most: a program
// that another test starts holds copies of this process's sockets until it runs.
func Rebind(listen func() error) error {
	for deadline := time.Now().Add(wait.Limit); ; <-time.After(10 * time.Millisecond) {
		if err := listen(); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String()) // it is a TCP address
	return port
}

func (s *Server) start() error {
	var output bytes.Buffer
	command, ended := exec.Command(s.program, s.config.Args...), make(chan struct{})
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		return err
	}
	go func() {
		_ = command.Wait() // it is killed, or its output says why it ended
		close(ended)
	}()
	s.command, s.ended = command, ended
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	for {
		err := s.config.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("ended: %s", output.String())
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("%w: %s", err, output.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Restart kills the program as a crash would, and starts it again on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		t.Fatalf("%s: %v", s.program, err)
	}
}

// Kill ends the program at once, if it has not ended, and returns when it has.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	<-s.ended
}

// Ended is closed when the program has ended, by itself as well.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Pause lets the program hang until Continue: it accepts connections and does not respond.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue ends a pause.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatalf("%s: %v", s.program, err)
	}
}
