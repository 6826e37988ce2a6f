package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Pause lets all processes of the server stand still until [Server.Continue]: connections stay open, new ones are
// accepted by the kernel, and nobody gets an answer. It returns when the last of them stands. It is for tests.
func (s *Server) Pause() error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(stopTimeout)
	for {
		// The first process stops before the others are looked for: then it starts no more of them.
		family, err := s.family()
		if err != nil {
			return err
		}
		running := 0
		for pid, state := range family {
			if !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") {
				running++
				_ = syscall.Kill(pid, syscall.SIGSTOP) // fails only when it has ended
			}
		}
		if running == 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-deadline:
			return errors.Join(errors.New("embedded PostgreSQL: it does not stand still"), s.Continue())
		}
	}
}

// Continue ends a pause. Where there is none it does nothing.
func (s *Server) Continue() error {
	family, err := s.family()
	if err != nil {
		return err
	}
	for pid := range family {
		_ = syscall.Kill(pid, syscall.SIGCONT) // fails only when it has ended
	}
	return nil
}

// family is the states of the server's processes: of the first one, and of its children.
func (s *Server) family() (map[int]string, error) {
	list, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, fmt.Errorf("embedded PostgreSQL: ps: %w", err)
	}
	first := s.cmd.Process.Pid
	family := map[int]string{}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(lines.Text(), &pid, &parent, &state); err == nil && (pid == first || parent == first) {
			family[pid] = state
		}
	}
	return family, nil
}
