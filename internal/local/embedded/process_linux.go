package embedded

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// endWithParent has the kernel send the fast shutdown signal when the thread that starts the process ends, even by
// SIGKILL.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGINT }

// commandLine is what the process was started with, empty when there is none or it is a zombie.
func commandLine(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(string(text), "\x00")
}
