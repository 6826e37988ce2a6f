package app

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// LimitMemory has Go's runtime collect garbage in time for the memory that the process may have: nine tenths of what the container
// has, which [memlimit.FromCgroup] tells, unless GOMEMLIMIT says something else. It returns that limit, 0 where there is none.
func LimitMemory(container memlimit.Provider) (bytes int64) {
	bytes, _ = memlimit.Set(memlimit.WithProvider(container)) // an error: no container, or not on Linux
	if bytes == math.MaxInt64 {
		return 0
	}
	return bytes
}
