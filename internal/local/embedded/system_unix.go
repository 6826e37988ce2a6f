//go:build unix

package embedded

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account that a program runs as.
type account = syscall.Credential

const (
	fastShutdown      = syscall.SIGINT // as PostgreSQL calls it: sessions are terminated, data are written
	immediateShutdown = syscall.SIGQUIT

	noFollow  = syscall.O_NOFOLLOW
	extension = "" // of programs
)

// unprivileged returns an account for PostgreSQL, which refuses to run as root; nil if this program does not run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			syscall.Umask(0o022) // it must be able to enter what root makes
			return &account{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and the accounts postgres and nobody do not exist")
}

// ownerOf returns the owner of a directory, nil for root.
func ownerOf(info os.FileInfo) *account {
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
		return &account{Uid: owner.Uid, Gid: owner.Gid}
	}
	return nil
}

// as makes a program run as an account; nil: this program's.
func as(a *account) *syscall.SysProcAttr { return &syscall.SysProcAttr{Credential: a} }

// ownGroup protects a program from Ctrl-C at the terminal.
func ownGroup(attributes *syscall.SysProcAttr) { attributes.Setpgid = true }

// free returns the free bytes of a file system, 0 if it does not exist.
func free(dir string) uint64 {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil {
		return 0
	}
	return stat.Bavail * uint64(stat.Bsize)
}

func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

func unlockFile(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

func interrupt(pid int) error { return syscall.Kill(pid, fastShutdown) }

// shutDown begins the shutdown of the place's server.
func (p *place) shutDown(process *os.Process) error { return process.Signal(fastShutdown) }

func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}
