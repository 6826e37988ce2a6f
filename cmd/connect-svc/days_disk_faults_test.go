//go:build faults

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// The page "The disk is full", on a small file system of the test's own: what cannot be stored is refused as documented, and when the file that was
// kept for it has gone, the service goes on, and has all that it acknowledged.
func TestFullDisk(t *testing.T) {
	pgtest.NotOnCluster(t, "the server is the test's own")
	base := t.TempDir()
	if err := syscall.Mount("tmpfs", base, "tmpfs", 0, "mode=755,size=256M"); err != nil {
		t.Fatalf("a small file system needs root, and the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(base, syscall.MNT_DETACH) })
	for folder := base; folder != os.TempDir(); folder = filepath.Dir(folder) { // the account of PostgreSQL must reach what is below
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	room := filepath.Join(base, "room")
	lines := section(t, "The disk is full", "-l 1G", "-l 32M", "/var/lib/postgresql/room", room)
	bashDone(t, nil, lines[0])
	config := embedded.Config{Dir: filepath.Join(base, "data"), Limits: wait.Patient}
	server, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	way := proxytest.New(t)
	address := way.Open(t, server.URL())
	if _, err := migrate.Apply(t.Context(), address, migrate.Up); err != nil {
		t.Fatal(err)
	}
	db := &pgtest.DB{URL: address, URLs: []string{address}, Clock: new(clock.Clock)}
	db.Pool = db.Open(t)
	env := allSettings(t, db)
	keys, err := credential.LoadKeyring(settingOf(t, env, "CONNECT_KEYSET_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	partner, tokens := db.Client(t), map[string]string{}
	authority := oauth.New(db.Pool, keys, oauth.DefaultSettings)
	for _, name := range []string{"kept", "tried"} {
		tokens[name] = edgetest.Connect(t, authority, partner, scope.All, db.User(t).ID).RefreshToken
	}
	s := start(t, env)
	refresh := func(name string) (int, string, http.Header) {
		t.Helper()
		token := tokens[name]
		defer func() { tokens[name] = token }()
		return refreshed(t, s.public, partner, &token)
	}
	for name := range tokens {
		if status, body, _ := refresh(name); status != http.StatusOK {
			t.Fatalf("a refresh before: %d %s", status, body)
		}
	}
	for _, query := range lines[2:] { // what has grown
		if _, err := db.Pool.Exec(t.Context(), query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}

	fill(t, base)
	// PostgreSQL uses up what it keeps of its log.
	for _, err = db.Pool.Exec(t.Context(), writeLog); err == nil; {
		_, err = db.Pool.Exec(t.Context(), writeLog)
	}
	t.Logf("PostgreSQL: %v", err)
	status, body, header := refresh("tried")
	if status != http.StatusInternalServerError || !strings.Contains(body, `"error":"server_error"`) {
		t.Errorf("a refresh while the disk is full: %d %s", status, body)
	}
	outcome := header.Get("Connect-Outcome")
	t.Logf("a refresh gets %d, Connect-Outcome %q", status, outcome)
	if status, _ := get(t, http.DefaultClient, "http://"+s.private+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz while the disk is full: %d", status)
	}

	bashDone(t, nil, lines[1])
	select {
	case <-server.Done(): // it ended by itself
		t.Log("PostgreSQL had ended, and is started")
		_ = server.Stop()
		way.Close()
		if server, err = embedded.Start(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop() })
		way.Open(t, server.URL())
	default:
	}
	wait.Until(t, "a refresh when there is room", func() bool {
		status, body, header := refresh("kept")
		if status != http.StatusOK && (status != http.StatusInternalServerError || header.Get("Connect-Outcome") != "not-attempted") {
			t.Fatalf("a refresh when there is room: %d %s", status, body)
		}
		return status == http.StatusOK
	})
	if outcome == "not-attempted" {
		if status, body, _ := refresh("tried"); status != http.StatusOK {
			t.Errorf("a refresh that was not attempted, again: %d %s", status, body)
		}
	}
	got := pgtest.Value[[]string](t, db, "select array_agg(state::text) from connections")
	if diff := cmp.Diff([]string{"authorized", "authorized"}, got); diff != "" {
		t.Errorf("the connections afterwards (-want +got):\n%s", diff)
	}
}

// writeLog writes a megabyte to PostgreSQL's log, and nothing else.
const writeLog = "select pg_logical_emit_message(true, 'fill', repeat('x', 1000000))"

// fill leaves no byte of a file system.
func fill(t *testing.T, folder string) {
	t.Helper()
	file, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := int64(0); ; {
		var disk syscall.Statfs_t
		if err := syscall.Statfs(folder, &disk); err != nil {
			t.Fatal(err)
		}
		free := int64(disk.Bavail) * disk.Bsize
		if free == 0 {
			return
		}
		if err := syscall.Fallocate(int(file.Fd()), 0, size, free); err == nil {
			size += free
		} else if err != syscall.ENOSPC { // PostgreSQL was faster
			t.Fatal(fmt.Errorf("fill: %w", err))
		}
	}
}
