package embedded

import "syscall"

// endWithParent has the kernel stop the process when the thread that started it ends, be it by SIGKILL.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = fastShutdown }
