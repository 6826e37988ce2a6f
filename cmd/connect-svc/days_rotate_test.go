package main

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// SIGHUP has a running server use another URL of its database, such as one with a new password. It keeps the old one if the new one cannot be used,
// or if another service's data are there.
func TestReloadOfTheDatabase(t *testing.T) {
	pgtest.NotOnCluster(t, "the role is of one server")
	t.Parallel()
	db, other := pgtest.New(t), pgtest.New(t)
	role := "connect_" + strings.ToLower(rand.Text())
	db.Define(t, "create role "+role+" superuser login password 'one'")
	t.Cleanup(func() { db.Define(t, "drop role "+role) })
	at := func(db *pgtest.DB, password string) string {
		address, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword(role, password)
		return address.String()
	}
	file := filepath.Join(t.TempDir(), "url")
	lead := func(to string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(to+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lead(at(db, "one"))
	env := allSettings(t, db)
	keys, err := credential.LoadKeyring(settingOf(t, env, "CONNECT_KEYSET_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	partner := db.Client(t)
	token := edgetest.Connect(t, oauth.New(db.Pool, keys, oauth.DefaultSettings), partner, scope.All, db.User(t).ID).RefreshToken
	if err := credential.NewTestKeyring().CheckMarks(t.Context(), other.Pool); err != nil {
		t.Fatal(err)
	}
	cmd, s, ended := startProcess(t, with(slicesWithout(env, "CONNECT_DATABASE_URL"), "CONNECT_DATABASE_URL_FILE="+file))
	reload := func(says string) {
		t.Helper()
		before := strings.Count(s.log.String(), says)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, says, func() bool { return strings.Count(s.log.String(), says) > before })
	}
	refresh := func(when string) {
		t.Helper()
		if status, body, _ := refreshed(t, s.public, partner, &token); status != http.StatusOK {
			t.Errorf("a refresh %s: %d %s", when, status, body)
		}
	}
	for name, to := range map[string]string{"with a wrong password": at(db, "wrong"), "of another service": at(other, "one")} {
		lead(to)
		reload("the settings cannot be used")
		refresh("after a URL " + name)
	}
	db.Define(t, "alter role "+role+" password 'two'")
	refresh("after a new password") // by the connections that are there
	lead(at(db, "two"))
	reload("the settings were read again")
	db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
	refresh("by new connections")
	if log := s.log.String(); strings.Contains(log, "only after a restart") || strings.Contains(log, at(db, "two")) {
		t.Errorf("the log:\n%s", log)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	_ = cmd.Wait()
}
