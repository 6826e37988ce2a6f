package embedded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connect-svc/internal/foundation/work"
)

// templateLife is how long a template stays that nobody uses.
const templateLife = 30 * 24 * time.Hour

// StartCopy is Start of an ephemeral server on a copy of a database that prepare made. prepare runs once on this machine for each name and
// major version of PostgreSQL, so that later starts take a fraction of the time. If the template cannot be kept, the database is new.
func StartCopy(ctx context.Context, config Config, name string, prepare func(ctx context.Context, url string) error) (*Server, error) {
	config.Ephemeral = true
	return start(ctx, config, func(p *place, ctx context.Context) (password string, err error) {
		if password, err = p.copyTemplate(ctx, name, prepare); err == nil || ctx.Err() != nil {
			return password, err
		}
		if err := os.RemoveAll(p.data()); err != nil {
			return "", err
		}
		return p.initialize(ctx)
	})
}

// copyTemplate fills the place with a copy of a template, which it makes if it is missing.
func (p *place) copyTemplate(ctx context.Context, name string, prepare func(context.Context, string) error) (password string, err error) {
	template, err := p.templateOf(name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(template), 0o755); err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(template); err == nil {
			break
		}
		lock, err := takeLock(template + ".lock")
		if err == nil {
			err = p.makeTemplate(ctx, template, prepare)
			_ = unlockFile(lock)
			_ = lock.Close()
			if err != nil {
				return "", err
			}
			break
		}
		if unusable := (*fs.PathError)(nil); errors.As(err, &unusable) { // such as in a read-only file system
			return "", err
		}
		if !work.Pause(ctx, 20*time.Millisecond) { // another program makes it
			return "", ctx.Err()
		}
	}
	text, err := os.ReadFile(filepath.Join(template, "password"))
	if err != nil {
		return "", err
	}
	_ = os.Chtimes(template, time.Time{}, time.Now()) // it is in use
	password = strings.TrimSpace(string(text))
	if err := p.keepPassword(password); err != nil {
		return "", err
	}
	// PostgreSQL serves a directory only if nobody but its account can enter it.
	if err := errors.Join(os.CopyFS(p.data(), os.DirFS(filepath.Join(template, "data"))), os.Chmod(p.data(), 0o700)); err != nil {
		return "", err
	}
	return password, filepath.WalkDir(p.data(), func(path string, _ fs.DirEntry, err error) error { return cmp.Or(err, p.own(path)) })
}

func (p *place) templateOf(name string) (path string, err error) {
	folder := sharedState // root's unprivileged account must be able to enter it
	if p.account == nil {
		if folder, err = os.UserCacheDir(); err != nil {
			return "", err
		}
		folder = filepath.Join(folder, "connect-svc")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", name, p.programs.bin, p.programs.major))
	return filepath.Join(folder, fmt.Sprintf("template-%x", sum[:8])), nil
}

// makeTemplate makes a template in one step, so that an interrupted one does not count. The caller holds its lock.
func (p *place) makeTemplate(ctx context.Context, template string, prepare func(context.Context, string) error) error {
	if _, err := os.Stat(template); err == nil { // by another program, before we had the lock
		return nil
	}
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(template), "template-????????????????"))
	for _, other := range others {
		if info, err := os.Stat(other); err == nil && time.Since(info.ModTime()) > templateLife {
			_ = os.RemoveAll(other)
			_ = os.Remove(other + ".lock")
		}
	}
	fresh := template + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	server, err := Start(ctx, Config{Dir: fresh, Limits: p.config.Limits})
	if err != nil {
		return err
	}
	defer os.Remove(fresh + ".lock") //nolint:errcheck // it is of no use to anybody
	err = prepare(ctx, server.URL())
	if stopped := server.Stop(); err == nil {
		err = stopped
	}
	if err == nil {
		err = os.Rename(fresh, template)
	}
	if err != nil {
		_ = os.RemoveAll(fresh)
	}
	return err
}
