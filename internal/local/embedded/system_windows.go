package embedded

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// account that a program runs as. On Windows it is always this program's.
type account struct{ Uid, Gid uint32 }

const (
	noFollow  = 0
	extension = ".exe" // of programs
)

func unprivileged() (*account, error) { return nil, nil }

func ownerOf(os.FileInfo) *account { return nil }

func as(*account) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// ownGroup keeps Ctrl-C at the terminal from a program.
func ownGroup(attributes *syscall.SysProcAttr) {
	attributes.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
}

// free is 0: there is no file system in memory.
func free(string) uint64 { return 0 }

// beyond is a part of a lock's file that holds nothing: who finds it locked can read whose it is.
func beyond() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1} }

func lockFile(file *os.File) error {
	const exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(file.Fd()), exclusive, 0, 1, 0, beyond())
}

func unlockFile(file *os.File) error {
	return windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, beyond())
}

// interrupt ends a server that was left, which Windows can only do at once. The next start recovers from its log.
func interrupt(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}

// shutDown begins the shutdown of the place's server: Windows has no signals, and pg_ctl knows how.
func (p *place) shutDown(*os.Process) error {
	return p.command(context.Background(), "pg_ctl", "stop", "-D", p.data(), "-m", "fast", "-W").Run()
}

func wasKilled(*os.ProcessState) bool { return false }
