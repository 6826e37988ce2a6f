// Package pgbouncertest starts a PgBouncer in transaction mode for a test, as docs/pgbouncer.ini sets it up: a process of
// its own, on a free port of the loopback interface. It is for tests only.
package pgbouncertest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/local/authority"
	"connect-svc/internal/testing/process"
)

// Server is a running PgBouncer. It ends with the test.
type Server struct {
	*process.Server
	URL     string // of the database behind it, by verified TLS
	Console string // URL of its console for those who administer it, for psql
	Config  string // its file, from docs/pgbouncer.ini
}

// Start runs a PgBouncer before the database at databaseURL. ini is the path of docs/pgbouncer.ini; settings are changed in it,
// as in "default_pool_size", "2". It verifies the database as sslmode and sslrootcert of databaseURL say.
func Start(t testing.TB, ini, databaseURL string, settings ...string) Server {
	t.Helper()
	database, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	// Started by root, it becomes another user, who cannot reach the files in the test's own directory.
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
	if err := os.Mkdir(filepath.Join(dir, "tls"), 0o755); err != nil {
		t.Fatal(err)
	}
	ca, err := authority.Open(filepath.Join(dir, "tls"), time.Now(), "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	readable(t, filepath.Join(dir, "tls"))
	roots := database.Query().Get("sslrootcert")
	if roots == "" {
		roots = ca.File
	}
	const admin, adminPassword = "admin", "of-the-console"
	write(t, filepath.Join(dir, "userlist.txt"), fmt.Sprintf("%q %q\n%q %q\n", database.User.Username(), password, admin, adminPassword))

	behind := url.URL{
		Scheme: "postgres", User: database.User, Path: "/connect",
		RawQuery: "sslmode=verify-full&sslrootcert=" + url.QueryEscape(ca.File) + "&default_query_exec_mode=cache_describe",
	}
	path := filepath.Join(dir, "pgbouncer.ini")
	server := process.Start(t, func(port string) process.Config {
		behind.Host = net.JoinHostPort("127.0.0.1", port)
		write(t, path, change(t, string(text), append([]string{
			"host=", database.Hostname(), "port=", database.Port(), "dbname=", strings.TrimPrefix(database.Path, "/"), "stats_users", database.User.Username(),
			"listen_addr", "127.0.0.1", "client_tls_cert_file", filepath.Join(dir, "tls", "server.pem"),
			"client_tls_key_file", filepath.Join(dir, "tls", "server-key.pem"),
			"server_tls_sslmode", cmp.Or(database.Query().Get("sslmode"), "disable"), "server_tls_ca_file", roots,
			"listen_port", port, "auth_file", filepath.Join(dir, "userlist.txt"), "pidfile", "",
		}, settings...)))
		args := []string{path}
		if os.Geteuid() == 0 { // as whom it does not run
			args = []string{"-u", "nobody", path}
		}
		return process.Config{Args: args, Ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, behind.String())
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		}}
	}, "pgbouncer", "/usr/sbin/pgbouncer") // Debian keeps it where only root looks
	console := url.URL{
		Scheme: "postgres", User: url.UserPassword(admin, adminPassword), Host: behind.Host, Path: "/pgbouncer",
		RawQuery: "sslmode=verify-full&sslrootcert=" + url.QueryEscape(ca.File),
	}
	return Server{server, behind.String(), console.String(), path}
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

// readable lets PgBouncer read the files of a folder as the user that it becomes.
func readable(t testing.TB, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // loopback, and gone with the test
		t.Fatal(err)
	}
}
