//go:build unix

package chromium

import (
	"os/exec"
	"syscall"
)

// endTogether ends a program with its children. Debian starts Chromium from a script that waits for it.
func endTogether(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
