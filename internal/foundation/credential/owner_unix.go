//go:build unix

package credential

import (
	"errors"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner and group of the file that it replaces.
func keepOwner(path string, info os.FileInfo) error {
	owner, known := info.Sys().(*syscall.Stat_t)
	if !known || int(owner.Uid) == os.Geteuid() && int(owner.Gid) == os.Getegid() {
		return nil
	}
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		return errors.New("belongs to another account, and only root can replace it so that it stays with that account")
	}
	return nil
}
