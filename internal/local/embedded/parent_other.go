//go:build !linux

package embedded

import "syscall"

// endWithParent does nothing: only Linux has such a signal. The next start stops a server that was left.
func endWithParent(*syscall.SysProcAttr) {}
