package main

import (
	"errors"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"connect-svc/internal/testing/pgtest"
)

// This test is not parallel: the limit is that of the whole process.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, test := range map[string]struct {
		container memlimit.Provider
		want      int64 // GiB
	}{
		"a container":    {memlimit.Limit(1000 << 30), 900},
		"no limit":       {func() (uint64, error) { return 0, memlimit.ErrNoLimit }, 0},
		"nobody knows":   {func() (uint64, error) { return 0, errors.New("no cgroups") }, 0},
		"another system": {func() (uint64, error) { return 0, memlimit.ErrCgroupsNotSupported }, 0},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		got := limitMemory(test.container)
		if got>>30 != test.want {
			t.Errorf("%s: the limit is %d, want %d GiB", name, got, test.want)
		}
		if set := debug.SetMemoryLimit(-1); set != got && (got != 0 || set != math.MaxInt64) {
			t.Errorf("%s: %d is set, and returned %d", name, set, got)
		}
	}
}

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
