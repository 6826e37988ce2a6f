package main

import (
	"strings"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// The environment wins over the container's limit. The log's first line has it.
func TestServeMemoryLimit(t *testing.T) {
	t.Parallel()
	cmd, s, ended := startProcess(t, with(allSettings(t, pgtest.New(t)), "GOMEMLIMIT=3GiB"))
	if log := s.log.String(); !strings.Contains(log, `"memory_limit_bytes":3221225472`) {
		t.Errorf("the log: %s", log)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-ended
	_ = cmd.Wait() // it was killed
}
