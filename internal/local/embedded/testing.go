//go:build unix

package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// StartReplica runs a streaming replica of a primary in an empty directory, and returns when it answers reads. Its [Server.URL] names
// the primary's database on the replica. After a promotion, [Start] can restart one that is not ephemeral. It is for tests. The error
// is one line.
func StartReplica(ctx context.Context, primary *Server, config Config) (*Server, error) {
	return start(ctx, config, func(p *place, ctx context.Context) (password string, err error) {
		if err := p.keepPassword(primary.password); err != nil {
			return "", err
		}
		return primary.password, p.run(ctx, "", "pg_basebackup", "--pgdata", p.data(), "--dbname", primary.URL(),
			"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
	})
}

// Pause stops all processes of the server until [Server.Continue]: connections stay open, the kernel accepts new ones,
// and no query is answered. It returns when the last process has stopped. It is for tests.
func (s *Server) Pause() error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		// The first process starts no more children once it has stopped: the next round finds all of them.
		running, err := s.signal(syscall.SIGSTOP)
		if err != nil || running == 0 {
			return err
		}
	}
	return errors.Join(errors.New("embedded PostgreSQL: its processes do not stop"), s.Continue())
}

// Continue ends a pause. Without one it does nothing.
func (s *Server) Continue() error {
	_, err := s.signal(syscall.SIGCONT)
	return err
}

// signal sends a signal to the server's first process and its children, and returns how many were not stopped before.
func (s *Server) signal(signal syscall.Signal) (running int, err error) {
	list, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return 0, fmt.Errorf("embedded PostgreSQL: ps: %w", err)
	}
	first := s.cmd.Process.Pid
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(lines.Text(), &pid, &parent, &state); err != nil || pid != first && parent != first {
			continue
		}
		_ = syscall.Kill(pid, signal) // fails only if the process has ended
		if !strings.ContainsAny(state, "TZ") {
			running++
		}
	}
	return running, nil
}

// StopAtOnce ends the server like a crash: sessions are cut off, nothing is written, and the next start on the directory recovers from
// the log. It is for tests.
func (s *Server) StopAtOnce() error {
	if err := s.cmd.Process.Signal(immediateShutdown); err != nil {
		return err
	}
	<-s.done
	return s.Stop()
}
