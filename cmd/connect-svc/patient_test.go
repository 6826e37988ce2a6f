//go:build !timed

package main

import (
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// No command has a limit that a busy machine reaches, nor has the test binary when it is the program. Promised times are measured
// with the build tag timed.
func init() { work.DefaultLimits = wait.Patient }
