package app_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// readyz asks whether the server is ready, and why not.
func readyz(t *testing.T, e *e2e.Service) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	e.App.PrivateHandler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/readyz?verbose", nil))
	return answer.Code, answer.Body.String()
}

// A database that is away is away for all servers, so a server stays ready. One whose schema does not suit it stays unready.
func TestReadyWithoutADatabase(t *testing.T) {
	t.Parallel()
	db, proxy := pgtest.New(t), proxytest.New(t)
	url := proxy.Open(t, db.URL)
	e := e2e.NewOn(t, db, func(c *app.Config) { c.DatabaseURL = url })
	if status, body := readyz(t, e); status != http.StatusOK || !strings.Contains(body, `"database":"ok"`) {
		t.Errorf("with a database: %d %s", status, body)
	}
	away := func() {
		t.Helper()
		proxy.Close()
		db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		e.App.SetProbeLimit(100 * time.Millisecond)
	}
	away()
	wait.Until(t, "the server says that the database is away", func() bool {
		status, body := readyz(t, e)
		if status != http.StatusOK || !strings.Contains(body, `"service":"ok"`) {
			t.Fatalf("without a database: %d %s", status, body)
		}
		return !strings.Contains(body, `"database":"ok"`)
	})
	e.App.SetProbeLimit(wait.Patient.Probe)
	proxy.Open(t, db.URL)
	db.Define(t, "create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 9999::bigint'")
	wait.Until(t, "the server says that the schema is for other programs", func() bool { // a connection may still be ending
		status, body := readyz(t, e)
		return status == http.StatusServiceUnavailable && strings.Contains(body, "9999")
	})
	away()
	if status, body := readyz(t, e); status != http.StatusServiceUnavailable || !strings.Contains(body, "9999") {
		t.Errorf("without a database whose schema was for other programs: %d %s", status, body)
	}
	proxy.Open(t, db.URL) // for the stop
}

// A server whose pool is stuck is unready once another server has reached the database since then. A server alone stays ready.
func TestReadyWithAStuckPool(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	other := servers.New(e.DB.Pool, "other", "", "", e.DB.Now())
	if err := other.Heartbeat(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for range e.App.Pool.MaxConns() {
		tx, err := e.App.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
	}
	e.App.SetProbeLimit(500 * time.Millisecond)
	for range 2 {
		if status, body := readyz(t, e); status != http.StatusOK {
			t.Errorf("while no other server is known to do better: %d %s", status, body)
		}
	}
	if err := other.Heartbeat(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the server leaves requests to the other one", func() bool {
		status, body := readyz(t, e)
		return status == http.StatusServiceUnavailable && strings.Contains(body, "pool")
	})
}

// With reasons the server says what check knows. Trouble that all servers have does not make it unready, and no secret is told.
func TestReadyTellsAll(t *testing.T) {
	t.Parallel()
	const secret = "svci_0123456789012345678901234567890123456789012"
	e := e2e.New(t, func(c *app.Config) {
		c.Certificate = listener.FixedCertificate(edgetest.Certificate(t, "127.0.0.1", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
		c.DatabaseReadURL = "postgres://u:hush@127.0.0.1:1/n"
	})
	checks := func() map[string]string {
		t.Helper()
		status, body := readyz(t, e)
		var answer struct{ Checks map[string]string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || strings.Contains(body, "hush") || strings.Contains(body, secret) {
			t.Fatalf("%d %s", status, body)
		}
		return answer.Checks
	}
	got := checks()
	if !strings.HasPrefix(got["certificates"], "public: ") {
		t.Errorf("the certificates: %q", got["certificates"])
	}
	delete(got, "certificates")
	if diff := cmp.Diff(map[string]string{
		"service": "ok", "database": "ok", "schema": "ok", "limiter": "ok", "replicas": "left out: 127.0.0.1:1", "keyset": "ok",
		"mail_server": "not used yet", "clock": "ok", "reload": "not since the start",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.DB.Exec(t, "alter table rate_limits rename to gone")
	if err := e.App.Withdraw(nil, errors.New("CONNECT_BRAND_LOGO: not "+secret)); err != nil {
		t.Fatal(err)
	}
	got = checks()
	if !strings.Contains(got["limiter"], "rate_limits") || !strings.HasPrefix(got["reload"], "failed, ") || !strings.Contains(got["reload"], "CONNECT_BRAND_LOGO") {
		t.Errorf("with trouble: %v", got)
	}
}
