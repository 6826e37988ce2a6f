package embedded

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// account that a program runs as. On Windows it is always the account of this program.
type account struct{ Uid, Gid uint32 }

const (
	noFollow  = 0
	extension = ".exe" // of programs
)

func unprivileged() (*account, error) { return nil, nil }

func ownerOf(os.FileInfo) *account { return nil }

func as(*account) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// ownGroup protects a program from Ctrl-C at the terminal.
func ownGroup(attributes *syscall.SysProcAttr) {
	attributes.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
}

// free returns 0: Windows has no file system in memory.
func free(string) uint64 { return 0 }

// beyond is the offset of the lock, after the content of the file, so that other programs can read the content.
func beyond() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1} }

func lockFile(file *os.File) error {
	const exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(file.Fd()), exclusive, 0, 1, 0, beyond())
}

func unlockFile(file *os.File) error {
	return windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, beyond())
}

// interrupt kills an orphaned server, because Windows cannot ask it to stop. The next start recovers from the log.
func interrupt(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}

// shutDown begins the shutdown of the place's server through pg_ctl, because Windows has no signals.
func (p *place) shutDown(*os.Process) error {
	return p.command(context.Background(), "pg_ctl", "stop", "-D", p.data(), "-m", "fast", "-W").Run()
}

func wasKilled(*os.ProcessState) bool { return false }
