package embedded

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// place is a directory that is ours alone while we hold its lock.
type place struct {
	dir       string // absolute; reachable for the account
	ephemeral bool
	durable   bool
	lock      *os.File
	account   account
	programs  programs
}

func (p *place) data() string     { return filepath.Join(p.dir, "data") }
func (p *place) log() string      { return filepath.Join(p.dir, "postgres.log") }
func (p *place) password() string { return filepath.Join(p.dir, "password") }

// env is all that PostgreSQL needs to know of ours: PG… variables of the caller are not for it.
func (p *place) env() []string { return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"} }

// temporaryPrefix begins the names of ephemeral directories, and of their locks.
const temporaryPrefix = "connect-svc-postgres-"

func openPlace(ctx context.Context, config Config) (*place, error) {
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if config.Ephemeral {
		return openTemporary(ctx, account, config.Durable)
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // the account must reach what is below
		return nil, err
	}
	lock, err := takeLock(dir + ".lock")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config.Dir, err)
	}
	p := &place{dir: dir, lock: lock, account: account}
	if err := p.open(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// open makes the directory, or a link to one that the account can reach, and finds the programs that fit its data.
func (p *place) open(ctx context.Context) error {
	switch real, err := filepath.EvalSymlinks(p.dir); {
	case err == nil:
		p.dir = real
		p.account = p.account.ownerOf(real)
		if !p.account.reaches(real) {
			return fmt.Errorf("the account %s, as which PostgreSQL runs for root, cannot reach %s", p.account.name, real)
		}
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(p.dir) // a link whose target is gone
		if err := p.make(); err != nil {
			return err
		}
	default:
		return err
	}
	var err error
	p.programs, err = findPrograms(ctx, majorOf(p.data()))
	return err
}

func (p *place) make() error {
	err := p.account.mkdir(p.dir)
	if err == nil && !p.account.reaches(p.dir) {
		err = errUnreachable
		_ = os.Remove(p.dir)
	}
	if !errors.Is(err, errUnreachable) {
		return err
	}
	// Named after the directory, so that a start after a reboot finds it; reached only through the link, so that
	// removing our directory is enough to begin anew.
	sum := sha256.Sum256([]byte(p.dir))
	elsewhere := filepath.Join(sharedState, hex.EncodeToString(sum[:8]))
	if err := os.RemoveAll(elsewhere); err != nil {
		return err
	}
	if err := os.MkdirAll(sharedState, 0o755); err != nil { // the account must reach what is below
		return err
	}
	if err := p.account.mkdir(elsewhere); err != nil {
		return err
	}
	if !p.account.reaches(elsewhere) {
		_ = os.Remove(elsewhere)
		return fmt.Errorf("the account %s, as which PostgreSQL runs for root, can reach neither %s nor %s",
			p.account.name, p.dir, elsewhere)
	}
	if err := os.Symlink(elsewhere, p.dir); err != nil {
		return err
	}
	p.dir = elsewhere
	return nil
}

var errUnreachable = errors.New("the account cannot reach the directory")

// sharedState holds the data of checkouts that live where only root may go, /root above all.
const sharedState = "/var/lib/connect-svc"

// openTemporary makes a place that close removes. It also removes those of programs that were killed.
func openTemporary(ctx context.Context, account account, durable bool) (*place, error) {
	bases := []string{os.TempDir()}
	if !durable && freeBytes(memory) >= memoryNeeded {
		bases = []string{memory, os.TempDir()}
	}
	if account.credential != nil {
		bases = append(bases, "/tmp", "/var/tmp", sharedState)
	}
	for _, base := range bases {
		removeAbandoned(ctx, base)
		lock, err := os.CreateTemp(base, temporaryPrefix+"*.lock")
		if err != nil {
			continue
		}
		p := &place{dir: strings.TrimSuffix(lock.Name(), ".lock"), ephemeral: true, durable: durable, lock: lock, account: account}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			err = account.mkdir(p.dir)
		}
		if err == nil && account.reaches(p.dir) {
			p.programs, err = findPrograms(ctx, "")
			if err != nil {
				p.close()
				return nil, err
			}
			return p, nil
		}
		p.close()
	}
	return nil, fmt.Errorf("no temporary directory that the account %s can reach: tried %s",
		account.name, strings.Join(bases, ", "))
}

// Linux's file system in memory, where a test's database is made fifteen times as fast as on a disk, and how much of
// it must be free for that: containers often have next to nothing.
const (
	memory       = "/dev/shm"
	memoryNeeded = 4 << 30
)

func freeBytes(dir string) uint64 {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil {
		return 0
	}
	return stat.Bavail * uint64(stat.Bsize)
}

// removeAbandoned removes ephemeral places whose program is gone. A lock is young while its owner is about to take it.
func removeAbandoned(ctx context.Context, base string) {
	locks, _ := filepath.Glob(filepath.Join(base, temporaryPrefix+"*.lock"))
	for _, path := range locks {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := takeLock(path)
		if err != nil {
			continue
		}
		p := &place{dir: strings.TrimSuffix(path, ".lock"), ephemeral: true, lock: lock}
		if p.stopOrphan(ctx) == nil {
			p.close()
			continue
		}
		_ = lock.Close()
	}
}

// takeLock takes the lock file at path, which the kernel frees when the program ends. It holds the owner's process id.
func takeLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Clean(path), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner, _ := os.ReadFile(filepath.Clean(path))
		_ = lock.Close()
		return nil, fmt.Errorf("in use by another connect-svc (process %s): stop that one first", strings.TrimSpace(string(owner)))
	}
	_ = lock.Truncate(0)
	_, _ = fmt.Fprintln(lock, os.Getpid())
	return lock, nil
}

// close gives the lock back, and removes what is ephemeral.
func (p *place) close() {
	if p.ephemeral {
		_ = os.RemoveAll(p.dir)
		_ = os.Remove(p.lock.Name())
	}
	// Closing alone would leave it with a child of another goroutine that has been forked and has not yet begun its program.
	_ = syscall.Flock(int(p.lock.Fd()), syscall.LOCK_UN)
	_ = p.lock.Close()
}

// initialize makes the cluster if there is none, and returns the password of its superuser.
func (p *place) initialize(ctx context.Context) (password string, err error) {
	if _, err := os.Stat(filepath.Join(p.data(), "PG_VERSION")); err == nil {
		text, err := os.ReadFile(p.password())
		if err != nil {
			return "", fmt.Errorf("%w: remove %s to begin anew", err, p.dir)
		}
		return strings.TrimSpace(string(text)), nil
	}
	password = rand.Text()
	if err := os.WriteFile(p.password(), []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := p.account.own(p.password()); err != nil {
		return "", err
	}
	// Renamed when it is whole: a first start that was interrupted leaves nothing that looks like a cluster.
	fresh := p.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	args := []string{
		"-D", fresh, "-U", superuser, "--pwfile", p.password(), "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if p.ephemeral {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, p.programs.initdb(), args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.dir, p.env(), p.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, strings.Join(strings.Fields(string(out)), " "))
	}
	return password, os.Rename(fresh, p.data())
}
