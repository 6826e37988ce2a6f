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
	fastShutdown      = syscall.SIGINT // PostgreSQL's name for it: sessions are cut off, data are written
	immediateShutdown = syscall.SIGQUIT

	noFollow  = syscall.O_NOFOLLOW
	extension = "" // of programs
)

// unprivileged is an account for PostgreSQL, which refuses to run as root, and nil for a program that root does not run.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &account{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and the accounts postgres and nobody do not exist")
}

// ownerOf is whose a directory is, nil for root's.
func ownerOf(info os.FileInfo) *account {
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
		return &account{Uid: owner.Uid, Gid: owner.Gid}
	}
	return nil
}

// as has a program run as an account, nil for this program's.
func as(a *account) *syscall.SysProcAttr { return &syscall.SysProcAttr{Credential: a} }

// ownGroup keeps Ctrl-C at the terminal from a program.
func ownGroup(attributes *syscall.SysProcAttr) { attributes.Setpgid = true }

// free is how many bytes a file system has left, 0 where there is none.
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

// interrupt begins the shutdown of the server that is a process.
func interrupt(pid int) error { return syscall.Kill(pid, fastShutdown) }

// shutDown begins the shutdown of the place's server.
func (p *place) shutDown(process *os.Process) error { return process.Signal(fastShutdown) }

// wasKilled reports whether a program did not end by itself.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}
