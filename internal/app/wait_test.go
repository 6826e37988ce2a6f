package app

import (
	"testing"

	"connect-svc/internal/testing/wait"
)

// eventually waits until something has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	wait.Until(t, what, happened)
}
