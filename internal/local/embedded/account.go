package embedded

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who PostgreSQL runs as. Without a credential that is whoever we are.
type account struct {
	name       string
	credential *syscall.Credential
}

// unprivileged is the caller's own account, or another one when the caller is root, as whom PostgreSQL refuses to run.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "of this program"}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{name: name, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and the accounts postgres and nobody do not exist")
}

func (a account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential}
}

// mkdir makes a directory that only the account may enter.
func (a account) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return a.own(dir)
}

func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// ownerOf is the account that made dir, when root comes after somebody else: PostgreSQL serves none but the owner.
func (a account) ownerOf(dir string) account {
	info, err := os.Stat(dir)
	if err != nil || a.credential == nil {
		return a
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
		a = account{name: strconv.Itoa(int(owner.Uid)), credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	return a
}

// reaches reports whether the account can enter dir: each directory above it may forbid that.
func (a account) reaches(dir string) bool {
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir, cmd.SysProcAttr = dir, a.attributes()
	return cmd.Run() == nil
}
