package main

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/operators"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
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
	role := newRole(t, db)
	at := func(db *pgtest.DB, password string) string { return urlAs(t, db, role, password) }
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
	db.Exec(t, "select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename = $1", role)
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

// newRole makes a role of the test's own, whose password is "one".
func newRole(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	role := "connect_" + strings.ToLower(rand.Text())
	db.Define(t, "create role "+role+" superuser login password 'one'")
	t.Cleanup(func() { db.Define(t, "drop role "+role) })
	return role
}

func urlAs(t *testing.T, db *pgtest.DB, role, password string) string {
	t.Helper()
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, password)
	return address.String()
}

// The page "Rotate everything after a leak": after its steps, in their order, the operator's token, the database's password, the keyset with what it
// sealed, and the partner's secrets are others. The former ones do not work any more.
func TestRotateEverything(t *testing.T) {
	pgtest.NotOnCluster(t, "the role is of one server")
	t.Parallel()
	db := pgtest.New(t)
	role := newRole(t, db)
	folder := t.TempDir()
	urlFile, operatorsFile := filepath.Join(folder, "url"), filepath.Join(folder, "operators")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(urlFile, urlAs(t, db, role, "one"))
	oldToken, line, err := operators.Create(operators.Operator{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	write(operatorsFile, line+"\n")
	env := slicesWithout(allSettings(t, db), "CONNECT_DATABASE_URL")
	keyset := settingOf(t, env, "CONNECT_KEYSET_FILE")
	env = with(env, "CONNECT_DATABASE_URL_FILE="+urlFile, "CONNECT_OPERATOR_TOKENS_FILE="+operatorsFile)
	connect := func(partner pgtest.Client) oauth.Tokens {
		t.Helper()
		keys, err := credential.LoadKeyring(keyset)
		if err != nil {
			t.Fatal(err)
		}
		return edgetest.Connect(t, oauth.New(db.Pool, keys, oauth.DefaultSettings), partner, scope.All, db.User(t).ID)
	}
	partner := db.Client(t)
	before := connect(partner)
	hook := []string{"client", "webhook", "set", partner.ID.String(), "https://partner.example/webhooks"}
	oldHook := succeedJSON[operatorapi.WebhookWithSecret](t, env, "", hook...).WebhookSecret
	succeed(t, env, "", "client", "webhook", "set", "operator", "https://app.example/connections")
	succeed(t, env, "", "client", "portal-link", partner.ID.String(), "--name", "kim")

	var cmd *exec.Cmd
	var s *service
	var ended <-chan struct{}
	start := func() { cmd, s, ended = startProcess(t, env) }
	signal := func(signal syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() { signal(syscall.SIGTERM); <-ended; _ = cmd.Wait() }
	start()
	if got := s.answers(t, oldToken); got != http.StatusOK {
		t.Fatalf("the operator's token before: %d", got)
	}
	newToken, secrets := "", operatorapi.ResumedClient{}
	for _, line := range section(t, "Rotate everything after a leak", "/etc/connect-svc/operators", operatorsFile, "/etc/connect-svc/keyset.json", keyset,
		"/etc/connect-svc/leaked.json", filepath.Join(folder, "leaked.json"), "postgres://localhost/connect", "'"+db.URL+"'", "'connect'", "'"+role+"'") {
		switch {
		case strings.HasPrefix(line, "connect-svc operator-token "):
			shown := strings.Fields(bashDone(t, env, line))
			if len(shown) < 2 || shown[0] != "token" {
				t.Fatalf("nobody sees the new token: %q", shown)
			}
			newToken = shown[1]
		case strings.Contains(line, `\password`): // it asks
			db.Define(t, "alter role "+role+" password 'two'")
			write(urlFile, urlAs(t, db, role, "two"))
		case line == "systemctl reload connect-svc":
			signal(syscall.SIGHUP)
			wait.Until(t, "the settings are read", func() bool { return strings.Contains(s.log.String(), "the settings were read again") })
			if got := s.answers(t, oldToken); got != http.StatusUnauthorized {
				t.Errorf("the operator's former token: %d", got)
			}
			if got := s.answers(t, newToken); got != http.StatusOK {
				t.Errorf("the operator's new token: %d", got)
			}
		case line == "systemctl stop connect-svc":
			// The server's idle sessions were ended a moment ago: a request that takes one of them fails before anything has happened.
			wait.Until(t, "a refresh after a new password", func() bool {
				status, body, _ := refreshed(t, s.public, partner, &before.RefreshToken)
				if status != http.StatusOK && status != http.StatusInternalServerError {
					t.Fatalf("a refresh after a new password: %d %s", status, body)
				}
				return status == http.StatusOK
			})
			stop()
		case line == "systemctl start connect-svc":
			start()
		case strings.HasPrefix(line, "connect-svc client portal-sessions "):
			bashDone(t, env, strings.Replace(line, "ID", partner.ID.String(), 1))
		case line == "connect-svc client resume ID --yes":
			secrets = succeedJSON[operatorapi.ResumedClient](t, env, "", "client", "resume", partner.ID.String(), "--yes")
		default:
			bashDone(t, env, line)
		}
	}
	defer stop()
	if _, err := postgres.Open(t.Context(), urlAs(t, db, role, "one")); err == nil {
		t.Error("the database's former password works")
	}
	token := before.RefreshToken
	if status, body, _ := refreshed(t, s.public, partner, &token); status != http.StatusUnauthorized {
		t.Errorf("a former secret: %d %s", status, body)
	}
	partner.Secret = secrets.ClientSecret
	if status, body, _ := refreshed(t, s.public, partner, &token); status != http.StatusBadRequest || !strings.Contains(body, "invalid_grant") {
		t.Errorf("a former refresh token: %d %s", status, body)
	}
	if secrets.WebhookSecret == nil || *secrets.WebhookSecret == *oldHook {
		t.Error("the webhook has no new secret")
	}
	keys, err := credential.LoadKeyring(keyset)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Open(credential.WebhookSecret, pgtest.Value[string](t, db, "select secret from webhook_endpoints where client_id = operator_id()")); err != nil {
		t.Errorf("the secret of the webhook of the operator's app: %v", err)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from portal_sessions"); n != 0 {
		t.Errorf("%d former links to the partner's pages work, which replace its secrets", n)
	}
	after := connect(partner).RefreshToken
	if status, body, _ := refreshed(t, s.public, partner, &after); status != http.StatusOK {
		t.Errorf("a refresh of a new connection: %d %s", status, body)
	}
}
