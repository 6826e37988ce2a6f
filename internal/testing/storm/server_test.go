//go:build faults

package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// build builds connect-svc as it is delivered, from the sources in a folder. It says which version it is.
func build(t *testing.T, version, sources string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "connect-svc")
	build := exec.Command("go", append(append([]string{"build", "-ldflags", "-X main.version=" + version, "-o", path}, flags...), "connect-svc/cmd/connect-svc")...)
	build.Dir = sources
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return path
}

// server is a `connect-svc serve`, looked after as a supervisor does.
type server struct {
	t       *testing.T
	program string
	env     []string
	front   *link       // leads to its public listener
	back    *link       // leads to its private listener
	out     atomic.Bool // the balancer sends it nothing

	mu      sync.Mutex
	command *exec.Cmd
	ended   chan struct{} // when the process has ended, and its log was read
	last    []string      // lines of the log
	errors  []string      // of it that say that a request failed
	lines   int           // of it in all
}

// start runs it and returns when it serves. A server does not start without its database: it is started again then.
func (s *server) start(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := s.tryStart()
		if err == nil || tries == 300 || ctx.Err() != nil {
			return err
		}
		await(ctx, 200*time.Millisecond)
	}
}

func (s *server) tryStart() error {
	command := exec.Command(s.program, "serve")
	command.Env = s.env
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := command.StderrPipe()
	if err != nil {
		return err
	}
	started, gone := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // whose end the kernel takes for that of the parent
		started <- command.Start()
		<-gone
	}()
	if err := <-started; err != nil {
		close(gone)
		return err
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s.logged(lines.Text())
		var event struct{ Msg, Public, Private string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Public == "" {
			continue
		}
		ended := make(chan struct{})
		s.mu.Lock()
		s.command, s.ended = command, ended
		s.mu.Unlock()
		go func() {
			for lines.Scan() {
				s.logged(lines.Text())
			}
			_, _ = io.Copy(io.Discard, log)
			_ = command.Wait() // its status is in ProcessState
			close(gone)
			close(ended)
		}()
		return errors.Join(s.front.lead(event.Public), s.back.lead(event.Private))
	}
	_ = command.Wait()
	close(gone)
	return fmt.Errorf("a server did not start: %s", s.tail(1))
}

// credentials are told by their prefixes (specification 2.9).
var credentials = regexp.MustCompile(`svci_|svcc_|svca_|svcr2_|cc1_|whsec_`)

var failedRequest = regexp.MustCompile(`"status":5\d\d`)

func (s *server) logged(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
	s.last = append(s.last[max(0, len(s.last)-50):], line)
	if failedRequest.MatchString(line) && !strings.Contains(line, `"operation":"readyz"`) {
		s.errors = append(s.errors[max(0, len(s.errors)-50):], line)
	}
	if credentials.MatchString(line) {
		s.t.Error("a log holds a credential")
	}
	if strings.HasPrefix(line, "panic:") || strings.Contains(line, "WARNING: DATA RACE") || strings.Contains(line, `"panic"`) {
		s.t.Errorf("a server panicked: %s", line)
	}
}

func (s *server) tail(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last[max(0, len(s.last)-n):], "\n")
}

func (s *server) signal(signal os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.command.Process.Signal(signal)
}

// end ends the process and returns how it ended. One that ended before it was asked is a failure.
func (s *server) end(signal os.Signal) (*os.ProcessState, error) {
	s.mu.Lock()
	command, ended := s.command, s.ended
	s.mu.Unlock()
	select {
	case <-ended:
		return nil, fmt.Errorf("a server had ended by itself, %s:\n%s", command.ProcessState, s.tail(20))
	default:
	}
	if err := command.Process.Signal(signal); err != nil {
		return nil, err
	}
	select {
	case <-ended:
		return command.ProcessState, nil
	case <-time.After(time.Minute):
		_ = command.Process.Kill()
		<-ended
		return nil, fmt.Errorf("a server did not end within a minute after a %s:\n%s", signal, s.tail(20))
	}
}
