package embedded

import "syscall"

// endWithParent makes the kernel stop the process when the thread that started it ends, even by SIGKILL.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = fastShutdown }
