package app

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// This test is not parallel: the limit is that of the whole process.
func TestLimitMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "") // which the runtime takes for not set
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
		got := LimitMemory(test.container)
		if got>>30 != test.want {
			t.Errorf("%s: the limit is %d, want %d GiB", name, got, test.want)
		}
		if set := debug.SetMemoryLimit(-1); set != got && (got != 0 || set != math.MaxInt64) {
			t.Errorf("%s: %d is set, and returned %d", name, set, got)
		}
	}
}
