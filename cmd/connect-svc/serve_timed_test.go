//go:build timed

package main

import (
	"testing"
	"time"

	"connect-svc/internal/testing/wait"
)

// A stop takes at most fifteen seconds after the drain delay, which is zero here (package app).
func TestTimedStop(t *testing.T) {
	stalled := wait.Stalls()
	took := stopGracefully(t)
	wait.InTime(t, "the stop", took, 15*time.Second, stalled())
}
