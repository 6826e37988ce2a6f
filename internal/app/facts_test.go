package app_test

import (
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/redistest"
)

// The facts of a service are what is so, and the page of the console shows them.
func TestFacts(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	keys := credential.NewTestKeyring()
	e := e2e.New(t, func(c *app.Config) {
		c.Version, c.Commit, c.Keys, c.LimiterURL, c.Operators = "v1.2.3", "abc", keys, redis.URL(), edgetest.Tokens(t)
		c.ServerName = "web-1"
		c.Certificate = listener.FixedCertificate(edgetest.Certificate(t, "127.0.0.1", time.Now(), time.Now().Add(time.Hour)))
		c.DatabaseReadURL = c.DatabaseURL // no replica, but one that is asked
	})
	e.Connect(t) // one email
	e.DB.Webhook(t, e.Partner.ID)
	e.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, created_at)
		select gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', connect_now() - n * interval '20 minutes'
		from generate_series(1, 5) n`, e.Partner.ID)
	e.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, queued)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', 'failed', true)`, e.Partner.ID)
	if err := e.App.Look(t.Context(), e.DB.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	e.App.Sweep(t.Context(), e.DB.Now()) // notes the size
	f := e.App.Facts(t.Context())
	version := pgtest.Value[string](t, e.DB, "show server_version")
	switch migrated := pgtest.Value[int64](t, e.DB, "select max(version_id) from goose_db_version"); {
	case f.Version != "v1.2.3" || f.Commit != "abc" || !strings.HasPrefix(f.Go, "go1.") || strings.Count(f.Contract, ".") != 2:
		t.Errorf("the versions are %s, %s, %s, %s", f.Version, f.Commit, f.Go, f.Contract)
	case !f.Servers.Known || len(f.Servers.Value) != 1 || f.Servers.Value[0].ID != f.Self || f.Servers.Value[0].Lost():
		t.Errorf("the servers are %+v", f.Servers)
	case f.Servers.Value[0].Host != "web-1" || f.Servers.Value[0].PrivateCertificateEnds != nil ||
		!f.Servers.Value[0].PublicCertificateEnds.Equal(f.Certificates[0].NotAfter):
		t.Errorf("this server is %+v", f.Servers.Value[0])
	case f.Migrations.Value != console.Migrations{Applied: migrated, Known: migrated}:
		t.Errorf("the migrations are %+v", f.Migrations)
	case !f.Database.Known || f.Database.Value.Version != version || f.Database.Value.Bytes < 1<<20 || len(f.Database.Value.Sizes) != 1:
		t.Errorf("the database is %+v", f.Database)
	case len(f.Certificates) != 1 || f.Certificates[0].Listener != "public" || f.Certificates[0].Problem != "is not for the host of the base URL" ||
		time.Until(f.Certificates[0].NotAfter) > time.Hour:
		t.Errorf("the certificates are %+v", f.Certificates)
	case f.Mail != console.Mail{Sent: 1, Used: true} || !f.MailWaiting.Known:
		t.Errorf("mail is %+v, %+v", f.Mail, f.MailWaiting)
	case !f.Redis || !f.Limiter.Known || f.Limiter.Value <= 0:
		t.Errorf("the limiter is %+v", f.Limiter)
	case len(f.Replicas) != 1 || f.Replicas[0].Used || f.Replicas[0].Lag != 0:
		t.Errorf("the replicas are %+v", f.Replicas)
	}
	if q := f.Webhooks.Value; q.Waiting != 5 || q.Due != 5 || q.Failed != 1 || q.Oldest < 100*time.Minute || q.Oldest > 110*time.Minute ||
		q.Ages[2].Count != 2 || q.Ages[3].Count != 3 {
		t.Errorf("the queue is %+v", q)
	}
	primary := strconv.FormatUint(uint64(keys.Keys()[0].ID), 10)
	if list := f.Keys.Value; len(list) != 3 || list[0].ID != primary || list[0].Status != "primary" || list[0].Since.IsZero() ||
		list[1].Status != "next" || !list[1].Since.IsZero() || list[2].Status != "identifiers" || list[2].Since.IsZero() {
		t.Errorf("the keys are %+v", list)
	}

	page := consolePage(t, e, "/service")
	for _, want := range []string{"v1.2.3", version, "No alerts are firing.", "Redis", primary, "left out", "127.0.0.1"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	redis.Kill()
	e.DB.Exec(t, "alter table webhook_events rename to gone")
	f = e.App.Facts(t.Context())
	if f.Limiter.Known || f.Webhooks.Known || !f.Servers.Known {
		t.Errorf("while Redis and a table are gone: %+v, %+v", f.Limiter, f.Webhooks)
	}
	if page := consolePage(t, e, "/service"); !strings.Contains(page, "does not answer") || !strings.Contains(page, "could not be determined") {
		t.Error("the page does not say that Redis and a table are gone")
	}
}

// consolePage is a page of the console, for whoever has the operator token.
func consolePage(t *testing.T, e *e2e.Service, path string) string {
	t.Helper()
	server := httptest.NewServer(e.App.PrivateHandler())
	defer server.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	signedIn, err := browser.PostForm(server.URL+console.Path+"/sign-in", url.Values{"token": {edgetest.UnnamedToken}})
	if err != nil {
		t.Fatal(err)
	}
	_ = signedIn.Body.Close()
	answer, err := browser.Get(server.URL + console.Path + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%q answers %d, %v", path, answer.StatusCode, err)
	}
	return html.UnescapeString(string(page))
}

// Servers on one host have names of their own.
func TestServerNames(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	_, port, _ := net.SplitHostPort(opened.Addr().String())
	for want, config := range map[string]app.Config{
		host + ":8443":    {Listen: ":8443"},
		host + ":8444":    {Listen: "127.0.0.1:8444"},
		host + ":" + port: {Listen: ":8443", Listener: opened},
		host:              {Listen: ":0"},
		"web-1":           {Listen: ":8443", ServerName: "web-1"},
	} {
		if got := config.Server(); got != want {
			t.Errorf("a server is called %q, want %q", got, want)
		}
	}
}
