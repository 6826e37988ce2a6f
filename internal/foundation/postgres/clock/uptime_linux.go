package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime returns the time since this machine started. Unlike Go's monotonic clock it counts while the machine is suspended, so that a
// laptop that has slept does not take the database's clock for one that jumped.
func uptime() time.Duration {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil { // since Linux 2.6.39
		panic(err)
	}
	return time.Duration(since.Nano())
}
