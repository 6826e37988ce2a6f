package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopOrphan deals with the postmaster.pid that a killed program left: it waits for a server that is still there,
// and removes the file when its process is none. We hold the lock, so no living program needs that server.
func (p *place) stopOrphan(ctx context.Context) error {
	path := filepath.Join(p.data(), "postmaster.pid")
	text, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	// The id may belong to any other process by now, after a reboot above all.
	if err != nil || pid <= 1 || !serves(pid, p.data()) {
		return os.Remove(path)
	}
	_ = syscall.Kill(pid, syscall.SIGINT)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for serves(pid, p.data()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the PostgreSQL of an earlier start, process %d, does not end: %w", pid, ctx.Err())
		case <-poll.C:
		}
	}
	return nil
}

// serves reports whether the process is a PostgreSQL on these data.
func serves(pid int, data string) bool {
	for _, word := range commandLine(pid) {
		if word == data {
			return true
		}
	}
	return false
}
