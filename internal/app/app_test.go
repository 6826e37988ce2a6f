package app

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open is the service on a database of the test's own, not running, with its log.
func open(t *testing.T) (*App, *pgtest.DB, *bytes.Buffer) {
	t.Helper()
	return openWith(t, func(*Config) {})
}

// openWith is open with something else configured.
func openWith(t *testing.T, change func(*Config)) (*App, *pgtest.DB, *bytes.Buffer) {
	t.Helper()
	db := pgtest.New(t)
	a, log := openOn(t, db, change)
	return a, db, log
}

// openOn is openWith on a database that others use, too.
func openOn(t *testing.T, db *pgtest.DB, change func(*Config)) (*App, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	config := Config{
		BaseURL:       "https://connect.example.com",
		Database:      settings.Database{DatabaseURL: db.URL},
		Keys:          credential.NewTestKeyring(),
		Listen:        "127.0.0.1:0",
		PrivateListen: "127.0.0.1:0",
		Mailer:        mailerAt(t, "127.0.0.1:25"),
		OAuth:         oauth.DefaultSettings,
		Activity:      activity.Settings{CursorLifetime: 15 * time.Minute},
		Clock:         db.Clock,
		Logger:        telemetry.NewLogger(&log, slog.LevelInfo),
		Limits:        wait.Patient,
	}
	change(&config)
	a, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return a, &log
}

// A sweep deletes what has expired, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	a, db, log := open(t)
	defer a.Close()
	browser := [32]byte{1}
	registration := db.Client(t)
	query := "client_id=" + registration.ID.String() + "&redirect_uri=" + registration.CallbackURL +
		"&response_type=code&scope=daily_steps:read&state=" + strings.Repeat("s", 22) +
		"&code_challenge=" + strings.Repeat("c", 42) + "A&code_challenge_method=S256"
	user := db.User(t)
	authorize := func() {
		asked, err := a.OAuth.Authorize(t.Context(), query, len(query), browser)
		if err == nil {
			err = a.OAuth.SignIn(t.Context(), asked, browser, browser, user.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pending := func() int64 { return pgtest.Value[int64](t, db, "select count(*) from authorization_requests") }

	authorize()
	db.Clock.Advance(9 * time.Minute)
	authorize()
	a.Sweep(t.Context(), db.Now())
	if n := pending(); n != 2 {
		t.Errorf("after 9 minutes %d requests are left, want 2", n)
	}
	db.Clock.Advance(2 * time.Minute)
	a.Sweep(t.Context(), db.Now())
	if n := pending(); n != 1 {
		t.Errorf("after 11 minutes %d requests are left, want 1", n)
	}
	if log.Len() != 0 {
		t.Errorf("the log: %s", log)
	}
}

// A sweep that takes long has no idle transaction, which PostgreSQL would end.
func TestSweepThatTakesLong(t *testing.T) {
	t.Parallel()
	a, db, log := open(t)
	defer a.Close()
	held, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := held.Exec(t.Context(), "lock table servers"); err != nil {
		t.Fatal(err)
	}
	swept := make(chan struct{})
	go func() { a.Sweep(t.Context(), db.Now()); close(swept) }()
	for _, state := range []string{ // the sweep waits, and then nothing that waits for it is idle any more
		"exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')",
		`not exists (select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'
			and pid not in (select pid from pg_locks where relation = 'servers'::regclass and granted))`,
	} {
		wait.Until(t, state, func() bool { return pgtest.Value[bool](t, db, "select "+state) })
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the sweep", swept)
	if log.Len() != 0 {
		t.Errorf("the log: %s", log)
	}
}

// A sweep that panics is logged with its stack, and keeps no other from its work.
func TestSweepThatPanics(t *testing.T) {
	t.Parallel()
	a, db, log := open(t)
	defer a.Close()
	db.Exec(t, `insert into servers (server_id, host, version, commit, started_at, seen_at, alerts)
		values (gen_random_uuid(), 'gone', '', '', connect_now() - interval '2 years', connect_now() - interval '1 year', '[]')`)
	a.Audit = nil
	a.Sweep(t.Context(), db.Now())
	if n := pgtest.Value[int](t, db, "select count(*) from servers where host = 'gone'"); n != 0 {
		t.Errorf("%d servers are left that were swept by others", n)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"domain":"audit"`) || !strings.Contains(text, "audit.(*Log).Sweep") {
		t.Errorf("the log: %s", text)
	}
}

// A listener that fails ends the service with that failure.
func TestRunEndsWithAListener(t *testing.T) {
	t.Parallel()
	a, _, log := open(t)
	a.config.Limits.Stop = wait.Limit / 4
	a.private.Close()
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "CONNECT_PRIVATE_LISTEN") {
		t.Errorf("Run returned %v", err)
	}
	if strings.Contains(log.String(), "work was broken off") {
		t.Error("something goes on although the service ends")
	}
}

// A server that stops leaves no lease behind, although the release of one may wait.
func TestCloseReleasesLeases(t *testing.T) {
	t.Parallel()
	a, db, _ := open(t)
	policy := ratelimit.Policy{RequestsPerMinute: 1, Burst: 1, ConcurrentReads: 10}
	decision, err := a.limiter.Admit(t.Context(), db.Client(t).ID, policy, db.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := decision.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if n := pgtest.Value[int](t, db, `select count(*) from rate_limits where state like '%"leases"%'`); n != 0 {
		t.Errorf("%d clients have leases", n)
	}
}

// A server that stops counts an event that its receiver accepts meanwhile.
func TestStopCountsTheLastDelivery(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	defer receiver.Close()
	a, db, _ := openWith(t, func(c *Config) {
		c.Webhooks.AllowedNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.Webhooks.RootCAs = x509.NewCertPool()
		c.Webhooks.RootCAs.AddCert(receiver.Certificate())
	})
	partner := db.Client(t).ID
	if _, err := a.Webhooks.SetEndpoint(t.Context(), partner, receiver.URL); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected')`, partner)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	wait.For(t, "the event", asked)
	stop()
	wait.Until(t, "only the delivery goes on", func() bool { return pgtest.Value[int](t, db, "select count(*) from servers") == 0 })
	close(answer)
	if err := wait.For(t, "the stop", stopped); err != nil {
		t.Error(err)
	}
	if n := pgtest.Value[int](t, db, `select coalesce(sum(n), 0)::int from usage_days where client_id = '`+partner.String()+`' and metric = 'webhooks_delivered'`); n != 1 {
		t.Errorf("%d events are counted", n)
	}
}

// A request that does not end is broken off, and so is what holds a connection of the database: the service is gone in
// time.
func TestStopBreaksOffWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	a, _, log := open(t)
	a.config.Limits.Drain, a.config.Limits.Stop = time.Millisecond, 100*time.Millisecond
	held, err := a.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{})
	a.public.HTTP.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(running)
		<-r.Context().Done()
	})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- a.Run(ctx) }()
	asked := make(chan error)
	go func() {
		answer, err := http.Get("http://" + a.PublicAddr().String())
		if err == nil {
			_ = answer.Body.Close()
		}
		asked <- err
	}()
	<-running
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-asked; err == nil {
		t.Error("the request that does not end was answered")
	}
	for _, event := range []string{"requests were broken off", "work was broken off", "stopped"} {
		if !strings.Contains(log.String(), `"msg":"`+event+`"`) {
			t.Errorf("the log does not say %q:\n%s", event, log)
		}
	}
	_ = held.Rollback(context.WithoutCancel(t.Context()))
	a.Close()
}

// Decisions, section 2: what is not for backends is answered with a page, also where there is none.
func TestUnknownPathsArePages(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	for target, want := range map[string]string{
		"/nothing":                          "text/html; charset=utf-8",
		"/authorize/nobody/sign-in":         "text/html; charset=utf-8",
		"/.well-known/openid-configuration": "text/html; charset=utf-8",
		"/oauth/nothing":                    "application/json",
		"/connect-svc/v1/grants/nothing":    "application/json",
	} {
		answer := httptest.NewRecorder()
		contracttest.Handler(t, a.public.HTTP.Handler).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		if got := answer.Header().Get("Content-Type"); answer.Code != http.StatusNotFound || got != want {
			t.Errorf("%s: %d, %s", target, answer.Code, got)
		}
	}
}

// A server's row is there from its start to its stop.
func TestServerSaysThatItIsThere(t *testing.T) {
	t.Parallel()
	a, db, log := openWith(t, func(c *Config) { c.Mailer = mailerAt(t, mailtest.Start(t, mailtest.Config{}).Address) })
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- a.Run(ctx) }()
	rows := func() int { return pgtest.Value[int](t, db, "select count(*) from servers") }
	wait.Until(t, "the row is there", func() bool { return rows() == 1 })
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := rows(); n != 0 {
		t.Errorf("after the stop there are %d rows", n)
	}
	if strings.Contains(log.String(), `"cause"`) {
		t.Errorf("the log: %s", log)
	}
}
