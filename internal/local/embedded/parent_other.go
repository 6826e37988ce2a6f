//go:build !linux

package embedded

import "syscall"

// endWithParent does nothing: only Linux has such a signal. The next start stops an orphaned server.
func endWithParent(*syscall.SysProcAttr) {}
