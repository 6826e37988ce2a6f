package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/foundation/work"
)

// initialize creates the database cluster if there is none, and returns the password of its superuser.
func (p *place) initialize(ctx context.Context) (password string, err error) {
	if err := p.stopOrphan(ctx); err != nil {
		return "", err
	}
	if _, err := os.Stat(p.data()); err == nil {
		text, err := os.ReadFile(p.passwordFile())
		if err != nil {
			return "", fmt.Errorf("%w: remove %s to start over", err, p.dir)
		}
		return strings.TrimSpace(string(text)), nil
	}
	password = rand.Text()
	if err := p.keepPassword(password); err != nil {
		return "", err
	}
	// Rename the complete cluster, so that an interrupted first start leaves nothing that looks like one.
	fresh := p.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	args := []string{"-D", fresh, "-U", name, "--pwfile", p.passwordFile(), "--encoding=UTF8", "--locale=C"}
	if p.config.Ephemeral {
		// MD5 needs no 4,096 rounds for each connection, of which tests make thousands. Nobody guesses a random password of 128 bits.
		args = append(args, "--no-sync", "--auth=md5")
	} else {
		args = append(args, "--auth=scram-sha-256")
	}
	if err := p.run(ctx, "", "initdb", args...); err != nil {
		return "", err
	}
	if err := p.run(ctx, "create database "+name, "postgres", "--single", "-D", fresh, "postgres"); err != nil {
		return "", err
	}
	return password, os.Rename(fresh, p.data())
}

func (p *place) passwordFile() string { return filepath.Join(p.dir, "password") }

func (p *place) keepPassword(password string) error {
	if err := os.WriteFile(p.passwordFile(), []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	return p.own(p.passwordFile())
}

// stopOrphan stops the server of a program that was killed, or removes its postmaster.pid. The caller holds the lock, so no running
// program needs that server.
func (p *place) stopOrphan(ctx context.Context) error {
	path := filepath.Join(p.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(first)
	if !serves(pid, p.data()) { // the id may belong to another process by now, in particular after a reboot
		return os.Remove(path)
	}
	for serves(pid, p.data()) {
		_ = interrupt(pid)
		if !work.Pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("the PostgreSQL of an earlier start, process %d, does not end: %w", pid, ctx.Err())
		}
	}
	return nil
}

// serves reports whether the process is a PostgreSQL on this data directory.
func serves(pid int, data string) bool {
	if pid <= 1 {
		return false
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil { // Linux
		return slices.Contains(strings.Split(string(text), "\x00"), data)
	}
	text, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return slices.Contains(strings.Fields(string(text)), data)
}

// command prepares one of PostgreSQL's programs. It does not inherit PG… variables.
func (p *place) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.programs.path(program), args...)
	cmd.Dir, cmd.SysProcAttr = p.dir, as(p.account)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	return cmd
}

func (p *place) run(ctx context.Context, input, program string, args ...string) error {
	cmd := p.command(ctx, program, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); ctx.Err() != nil {
		return fmt.Errorf("%s was broken off, as the start took too long or was to end: %w", program, ctx.Err())
	} else if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, oneLine(out))
	}
	return nil
}

func oneLine(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }
