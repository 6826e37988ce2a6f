package embedded

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// sharedState holds files for an unprivileged account, which cannot enter root's own directories.
	sharedState = "/var/lib/connect-svc"
	// temporaryPrefix begins the names of ephemeral directories and of their locks.
	temporaryPrefix = "connect-svc-postgres-"

	// memory is Linux's file system in memory, where a test's database is created in a fifteenth of the time that a disk needs. It is
	// used if memoryNeeded bytes of it are free; in containers it is often tiny.
	memory       = "/dev/shm"
	memoryNeeded = 4 << 30
)

// place is a directory that the program has for itself while it holds the lock.
type place struct {
	config   Config
	dir      string // absolute; the account can reach it
	lock     *os.File
	account  *account // that PostgreSQL runs as; nil: the account of this program
	programs programs
}

func (p *place) data() string { return filepath.Join(p.dir, "data") }
func (p *place) log() string  { return filepath.Join(p.dir, "postgres.log") }

// open locks the directory, creates it if it is missing, and finds the programs that fit its data.
func (p *place) open(ctx context.Context) (err error) {
	if p.account, err = unprivileged(); err != nil {
		return err
	}
	if p.config.Ephemeral {
		base := os.TempDir()
		if !p.config.Durable && free(memory) >= memoryNeeded {
			base = memory
		} else if p.account != nil && p.reach(base) != nil {
			base = sharedState
		}
		removeAbandoned(ctx, base)
		p.config.Dir = filepath.Join(base, temporaryPrefix+rand.Text())
	}
	if p.dir, err = filepath.Abs(p.config.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.dir), 0o755); err != nil { // the account must be able to enter it
		return err
	}
	if p.lock, err = takeLock(p.dir + ".lock"); err != nil {
		return fmt.Errorf("%s: %w", p.config.Dir, err)
	}
	if err := p.openDir(); err != nil {
		return err
	}
	version, _ := os.ReadFile(filepath.Join(p.data(), "PG_VERSION"))
	major, _ := strconv.Atoi(strings.TrimSpace(string(version))) // 0: no data yet
	p.programs, err = findPrograms(ctx, major)
	return err
}

func (p *place) openDir() error {
	target, err := filepath.EvalSymlinks(p.dir)
	if err != nil {
		_ = os.Remove(p.dir) // it may be a dangling link
		return p.makeDir()
	}
	p.dir = target
	info, err := os.Stat(target)
	if err != nil || p.account == nil {
		return err
	}
	// The last start may have used another account. PostgreSQL serves a directory only to its owner.
	if owner := ownerOf(info); owner != nil {
		p.account = owner
	}
	return p.reach(target)
}

// makeDir creates the directory or, if root's unprivileged account cannot enter it, a link to one that it can enter.
func (p *place) makeDir() error {
	if err := p.mkdir(p.dir); err == nil || p.account == nil {
		return err
	}
	// The name derives from the path, so that a start after a reboot finds the data. They are found only through the
	// link, so that removing the directory is enough to start over.
	sum := sha256.Sum256([]byte(p.dir))
	link, target := p.dir, filepath.Join(sharedState, hex.EncodeToString(sum[:8]))
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(sharedState, 0o755); err != nil { // the account must be able to enter it
		return err
	}
	if err := p.mkdir(target); err != nil {
		return err
	}
	p.dir = target
	return os.Symlink(target, link)
}

// mkdir creates a directory that only the account can enter.
func (p *place) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := p.own(dir); err != nil {
		return err
	}
	err := p.reach(dir)
	if err != nil {
		_ = os.Remove(dir)
	}
	return err
}

func (p *place) own(path string) error {
	if p.account == nil {
		return nil
	}
	return os.Chown(path, int(p.account.Uid), int(p.account.Gid))
}

// reach fails if the account cannot enter dir, because of the permissions of any directory above it.
func (p *place) reach(dir string) error {
	if p.account == nil {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir, cmd.SysProcAttr = dir, as(p.account)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the account that PostgreSQL is to run as cannot enter %s: %w", dir, err)
	}
	return nil
}

// removeAbandoned removes the ephemeral directories of programs that have ended. It spares new lock files: the program may not hold
// the lock yet.
func removeAbandoned(ctx context.Context, base string) {
	locks, _ := filepath.Glob(filepath.Join(base, temporaryPrefix+"*.lock"))
	for _, path := range locks {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if lock, err := takeLock(path); err == nil {
			p := &place{dir: strings.TrimSuffix(path, ".lock"), lock: lock}
			p.config.Ephemeral = p.stopOrphan(ctx) == nil // otherwise a server still uses the files
			p.close()
		}
	}
}

// takeLock takes the file lock at path, which the kernel releases when the program ends. The file holds the process id.
func takeLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(lock); err != nil {
		owner, _ := os.ReadFile(path)
		_ = lock.Close()
		return nil, fmt.Errorf("in use by another connect-svc (process %s): stop that one first", strings.TrimSpace(string(owner)))
	}
	_ = lock.Truncate(0)
	_, _ = fmt.Fprintln(lock, os.Getpid())
	return lock, nil
}

// close releases the lock, if there is one, and removes ephemeral files.
func (p *place) close() {
	if p.lock == nil {
		return
	}
	if p.config.Ephemeral {
		_ = os.RemoveAll(p.dir)
		_ = os.Remove(p.lock.Name())
	}
	// Closing is not enough: a child that another goroutine has forked holds the file until it executes its program.
	_ = unlockFile(p.lock)
	_ = p.lock.Close()
	if p.config.Ephemeral {
		_ = os.Remove(p.lock.Name()) // Windows cannot remove an open file
	}
}
