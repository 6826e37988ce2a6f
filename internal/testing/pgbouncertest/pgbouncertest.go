// Package pgbouncertest starts a PgBouncer in transaction mode for a test, as docs/pgbouncer.ini sets it up: a process of
// its own, on a free port of the loopback interface. It is for tests only.
package pgbouncertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Start runs a PgBouncer before the database at databaseURL and returns the URL of the database behind it. ini is the
// path of docs/pgbouncer.ini; settings are changed in it, as in "default_pool_size", "2". It ends with the test.
func Start(t testing.TB, ini, databaseURL string, settings ...string) string {
	t.Helper()
	database, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	// Started by root it becomes another user, who must reach its files: not the test's own directory.
	dir, err := os.MkdirTemp("", "connect-svc-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Clean(ini))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := database.User.Password()
	write(t, filepath.Join(dir, "userlist.txt"), fmt.Sprintf("%q %q\n", database.User.Username(), password))

	// Another process may take the port before PgBouncer does: then it ends at once, and another port is tried.
	for range 5 {
		var port string
		if port, err = freePort(); err != nil {
			break
		}
		config := change(t, string(text), append([]string{
			"host=", database.Hostname(), "port=", database.Port(), "dbname=", strings.TrimPrefix(database.Path, "/"),
			"listen_port", port, "auth_file", filepath.Join(dir, "userlist.txt"), "pidfile", "",
		}, settings...))
		path := filepath.Join(dir, "pgbouncer.ini")
		write(t, path, config)
		behind := url.URL{
			Scheme: "postgres", User: database.User, Host: net.JoinHostPort("127.0.0.1", port), Path: "/connect",
			RawQuery: "sslmode=disable&default_query_exec_mode=cache_describe",
		}
		if err = start(t, path, behind.String()); err == nil {
			return behind.String()
		}
	}
	t.Fatalf("pgbouncer: %v", err)
	return ""
}

// change replaces the values of settings, which must be there: `name = value` on a line of its own, or, where the name
// ends with "=", `name=value` within the line of the database.
func change(t testing.TB, config string, settings []string) string {
	t.Helper()
	for i := 0; i < len(settings); i += 2 {
		pattern, value := regexp.MustCompile(`(?m)^`+settings[i]+` = .*$`), settings[i]+" = "+settings[i+1]
		if strings.HasSuffix(settings[i], "=") {
			pattern, value = regexp.MustCompile(`\b`+settings[i]+`('[^']*'|\S+)`), settings[i]+settings[i+1]
		}
		if len(pattern.FindAllString(config, -1)) != 1 {
			t.Fatalf("pgbouncer.ini does not have %q once", settings[i])
		}
		config = pattern.ReplaceAllLiteralString(config, value)
	}
	return config
}

func start(t testing.TB, ini, address string) error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil { // Debian keeps it where only root looks
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return errors.New("not found: make tools installs it, or says what to install")
		}
	}
	args := []string{ini}
	if os.Geteuid() == 0 { // as whom it does not run
		args = []string{"-u", "nobody", ini}
	}
	var output bytes.Buffer
	process := exec.Command(program, args...)
	process.Stdout, process.Stderr = &output, &output
	if err := process.Start(); err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		_ = process.Wait() // it is killed, or its output says why it ended
		close(stopped)
	}()
	kill := func() {
		_ = process.Process.Kill() // it may have ended
		<-stopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			_ = conn.Close(ctx)
			t.Cleanup(kill)
			return nil
		}
		select {
		case <-stopped:
			return fmt.Errorf("ended: %s", output.String())
		case <-ctx.Done():
			kill()
			return fmt.Errorf("%w: %s", err, output.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // loopback, and gone with the test
		t.Fatal(err)
	}
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
