package embedded

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// asParent makes this test program one that starts a server in the directory and waits to be killed.
const asParent = "CONNECT_TEST_EMBEDDED_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asParent); dir != "" {
		s, err := Start(context.Background(), Config{Dir: dir, Ephemeral: dir == "ephemeral"})
		if err != nil {
			os.Stdout.WriteString("error: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString(s.URL() + "\n" + s.Dir() + "\n" + strconv.Itoa(s.cmd.Process.Pid) + "\n")
		select {}
	}
	os.Exit(m.Run())
}

// open starts a server and leaves nothing of it after the test.
func open(t *testing.T, config Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(s.Dir())
	})
	return s
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		t.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestRestartFindsData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "postgres")
	first := open(t, Config{Dir: dir})
	execute(t, first.URL(), "create table kept as select 42 as n")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
	<-first.Done()
	second := open(t, Config{Dir: dir})
	if got := query[int](t, second.URL(), "select n from kept"); got != 42 {
		t.Errorf("kept %d, want 42", got)
	}
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

func TestRemovedDirectoryBeginsAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	first := open(t, Config{Dir: dir})
	execute(t, first.URL(), "create table kept as select 42 as n")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil { // a link, where the account could not reach it
		t.Fatal(err)
	}
	second := open(t, Config{Dir: dir})
	if query[bool](t, second.URL(), "select to_regclass('kept') is not null") {
		t.Error("data of the removed directory are still there")
	}
}

// The account of PostgreSQL can enter the folders that root makes for it, whatever the umask.
func TestUmask(t *testing.T) { //nolint:paralleltest // the umask is the process's
	base, err := os.MkdirTemp("", "connect-svc-umask-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	dir := filepath.Join(base, "deep", "postgres")
	s := open(t, Config{Dir: dir})
	if s.Dir() != dir || query[int](t, s.URL(), "select 1") != 1 {
		t.Errorf("the data are in %s", s.Dir())
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	open(t, Config{Dir: dir})
	_, err := Start(t.Context(), Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another connect-svc (process "+strconv.Itoa(os.Getpid())+")") {
		t.Errorf("second start: %v", err)
	}
}

func TestEphemeralLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Ephemeral: true})
	other := open(t, Config{Ephemeral: true})
	if s.Dir() == other.Dir() {
		t.Errorf("two ephemeral servers in %s", s.Dir())
	}
	if got := query[string](t, s.URL(), "show fsync"); got != "off" {
		t.Errorf("fsync = %s", got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.Dir(), s.Dir() + ".lock"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// Only an ephemeral server may lose what it was told, and not even that one where it is to be measured.
func TestDurability(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{
		"kept":                  {Dir: filepath.Join(t.TempDir(), "postgres")},
		"ephemeral and durable": {Ephemeral: true, Durable: true},
	} {
		s := open(t, config)
		for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
			if got := query[string](t, s.URL(), "show "+setting); got != "on" {
				t.Errorf("%s: %s = %s, want on", name, setting, got)
			}
		}
		if config.Durable && strings.HasPrefix(s.Dir(), memory) {
			t.Errorf("%s: in memory, at %s", name, s.Dir())
		}
	}
}

// parent starts a server in another process.
func parent(t *testing.T, dir string) (process *os.Process, url, place string, server int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asParent+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	var said []string
	for len(said) < 3 && lines.Scan() {
		said = append(said, lines.Text())
	}
	if len(said) < 3 {
		t.Fatalf("the other process said %q", said)
	}
	server, err = strconv.Atoi(said[2])
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process, said[0], said[1], server
}

// The server of a program that was killed ends too, and its data are found by the next start, which may come at once.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	process, url, place, server := parent(t, dir)
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	execute(t, url, "create table kept as select 42 as n")
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = process.Wait()
	next := open(t, Config{Dir: dir})
	if got := query[int](t, next.URL(), "select n from kept"); got != 42 {
		t.Errorf("kept %d, want 42", got)
	}
	if serves(server, filepath.Join(place, "data")) {
		t.Errorf("process %d still serves", server)
	}
}

// A postmaster.pid of before a reboot may name a process that is somebody else by now: ourselves here.
func TestStalePIDFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	first := open(t, Config{Dir: dir})
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(first.Dir(), "data", "postmaster.pid")
	if err := os.WriteFile(stale, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir})
}

func TestInterruptedFirstStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Start(ctx, Config{Dir: dir}); err == nil {
		_ = s.Stop()
		t.Fatal("started although canceled")
	}
	open(t, Config{Dir: dir})
}

// A child that another goroutine has just forked has our files until its own program begins.
func TestLockIsGivenBackWhateverChildrenHold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "postgres.lock")
	lock, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	forked, err := syscall.Dup(int(lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(forked) }()
	(&place{lock: lock}).close()
	again, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

func TestAbandonedEphemeralIsRemoved(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, temporaryPrefix+"1")
	young := filepath.Join(base, temporaryPrefix+"2")
	for _, d := range []string{dir, young} {
		if err := os.MkdirAll(filepath.Join(d, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d+".lock", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := timeAgo(t, dir+".lock")
	removeAbandoned(t.Context(), base)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("abandoned at %v and still there: %v", then, err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("one that is just being made is gone: %v", err)
	}
}

func TestProgramsOfTheMachine(t *testing.T) {
	t.Parallel()
	found := installed(t.Context())
	if len(found) == 0 || found[0].major < oldest {
		t.Fatalf("found %v", found)
	}
	same, err := findPrograms(t.Context(), found[0].major)
	if err != nil || same != found[0] {
		t.Errorf("for its own data: %v, %v", same, err)
	}
	if _, err := findPrograms(t.Context(), 9); err == nil || !strings.Contains(err.Error(), "need PostgreSQL 9,") {
		t.Errorf("for data of PostgreSQL 9: %v", err)
	}
}

// The programs in PATH come before newer ones, unless they are too old.
func TestProgramsOfPath(t *testing.T) {
	before := installed(t.Context())
	for version, first := range map[string]bool{"15.1": true, "14.9": false} {
		dir := t.TempDir()
		for _, name := range []string{"postgres", "initdb"} {
			script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		found, err := findPrograms(t.Context(), 0)
		if err != nil || (found.bin == dir) != first {
			t.Errorf("%s in PATH: %v, %v; before: %v", version, found, err, before)
		}
	}
}

// The library leaves a file in the temporary directory: neither of these runs in parallel, so that it can be another.
func TestFetchFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	dir := filepath.Join(t.TempDir(), "postgresql")
	_, err := fetchPrograms(t.Context(), nothing.URL, dir)
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// testdata/programs.txz has a bin/postgres that says its version, and a bin/initdb and bin/pg_ctl that fail, as those
// do for root.
func TestFetch(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	archive, err := os.ReadFile("testdata/programs.txz")
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	packed := zip.NewWriter(&jar)
	entry, err := packed.Create("postgres-linux.txz")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = entry.Write(archive)
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = fmt.Fprintf(w, "%x", sha256.Sum256(jar.Bytes()))
			return
		}
		asked++
		_, _ = w.Write(jar.Bytes())
	}))
	defer repository.Close()
	dir := filepath.Join(t.TempDir(), "deep", "postgresql")
	for range 2 { // the second time it is there
		p, err := fetchPrograms(t.Context(), repository.URL, dir)
		if err != nil || p.major != fetchedMajor || p.bin != filepath.Join(dir, "bin") {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	if asked != 1 {
		t.Errorf("fetched %d times", asked)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// timeAgo makes the file two minutes old.
func timeAgo(t *testing.T, path string) time.Time {
	t.Helper()
	then := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	return then
}
