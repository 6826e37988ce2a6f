//go:build !linux

package clock

import "time"

var started = time.Now()

// uptime returns the time since this program started. It may stand still while the machine is suspended.
func uptime() time.Duration { return time.Since(started) }
