//go:build unix && !linux

package embedded

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent does nothing: there is no such signal here. The next start stops a server that was left.
func endWithParent(*syscall.SysProcAttr) {}

// commandLine is what the process was started with, empty when there is none.
func commandLine(pid int) []string {
	text, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return strings.Fields(string(text))
}
