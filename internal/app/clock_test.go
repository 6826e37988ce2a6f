package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// timeless connects as a partner, and revokes one of its access tokens.
type timeless struct {
	*e2e.Service
	config        *oauth2.Config
	live, revoked *oauth2.Token
	entries       int // of the audit log
}

func beforeTheJump(t *testing.T) *timeless {
	t.Helper()
	pgtest.NotOnCluster(t, "its clock is that of each node")
	w := &timeless{Service: e2e.New(t, func(c *app.Config) {
		c.AuditRetention, c.Operators = 400*24*time.Hour, edgetest.Tokens(t)
	})}
	w.config, w.revoked = w.Connect(t)
	w.look(t)
	if status := w.revoke(t, w.revoked); status != http.StatusOK {
		t.Fatalf("revoking answers %d", status)
	}
	w.live = w.refreshed(t, w.revoked)
	w.entries = pgtest.Value[int](t, w.DB, "select count(*)::int from audit_log")
	return w
}

// look has the service look at the clocks and evaluate its alerts.
func (w *timeless) look(t *testing.T) {
	t.Helper()
	w.App.LookAtClock(t.Context())
	if err := w.App.Look(t.Context(), w.DB.Clock.Now()); err != nil {
		t.Fatal(err)
	}
}

func (w *timeless) revoke(t *testing.T, token *oauth2.Token) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Base+"/oauth/revoke",
		strings.NewReader(url.Values{"token": {token.AccessToken}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(w.config.ClientID, w.config.ClientSecret)
	answer, err := (&http.Client{Transport: w.TLS}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	outcome := answer.Header.Get("Connect-Outcome")
	if fault := answer.StatusCode == http.StatusInternalServerError; (outcome == "not-attempted") != fault {
		t.Errorf("%d has the outcome %q", answer.StatusCode, outcome)
	}
	return answer.StatusCode
}

func (w *timeless) refresh(t *testing.T, token *oauth2.Token) (*oauth2.Token, error) {
	return w.config.TokenSource(w.Client(t), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
}

func (w *timeless) refreshed(t *testing.T, token *oauth2.Token) *oauth2.Token {
	t.Helper()
	next, err := w.refresh(t, token)
	if err != nil {
		t.Fatal("refresh: ", e2e.CodeOf(err))
	}
	return next.WithExtra(map[string]any{"grant_id": token.Extra("grant_id"), "history_from": token.Extra("history_from")})
}

// isWhole checks that the jump has left nothing behind.
func (w *timeless) isWhole(t *testing.T, when string) {
	t.Helper()
	if status := w.Read(t, w.revoked); status != http.StatusUnauthorized {
		t.Errorf("%s: a revoked access token is answered %d", when, status)
	}
	if status := w.Read(t, w.live); status != http.StatusOK {
		t.Errorf("%s: an access token is answered %d", when, status)
	}
	if n := pgtest.Value[int](t, w.DB, "select count(*)::int from audit_log"); n < w.entries {
		t.Errorf("%s: %d of %d entries of the audit log are left", when, n, w.entries)
	}
	w.live = w.refreshed(t, w.live)
	if status := w.Read(t, w.live); status != http.StatusOK {
		t.Errorf("%s: a new access token is answered %d", when, status)
	}
}

// jumps of the database's clock.
var jumps = map[string]time.Duration{
	"three minutes": 3 * time.Minute, "an hour": time.Hour, "401 days": 401 * 24 * time.Hour, "an hour back": -time.Hour, "91 days back": -91 * 24 * time.Hour,
}

// While the database's clock is wrong, reads get 503 and token requests 500, from the first request on, also before the service has looked
// at the clock. Afterwards everything is as before.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	for name, jump := range jumps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := beforeTheJump(t)
			w.DB.Jump(t, jump)
			for _, when := range []string{"before a look", "after a look"} {
				if status := w.Read(t, w.live); status != http.StatusServiceUnavailable {
					t.Errorf("%s: a read is answered %d", when, status)
				}
				if _, err := w.refresh(t, w.live); e2e.CodeOf(err) != "server_error" {
					t.Errorf("%s: a refresh is answered %s", when, e2e.CodeOf(err))
				}
				if status := w.revoke(t, w.live); status != http.StatusInternalServerError {
					t.Errorf("%s: revoking an access token is answered %d", when, status)
				}
				w.look(t)
			}
			w.App.SweepStep(t.Context())
			w.App.Sweep(t.Context(), w.DB.Now().Add(jump))
			for what, page := range map[string]string{"/readyz?verbose": w.Private(t, "/readyz?verbose"), "the console": consolePage(t, w.Service, "/service")} {
				if !strings.Contains(page, "the database's clock is") || !strings.Contains(page, "0s ") {
					t.Errorf("%s does not say it: %s", what, page)
				}
			}
			if names := firing(w.Service); fmt.Sprint(names) != "[ConnectClockNotBelieved ConnectClocksDiffer]" {
				t.Errorf("the alerts that fire are %q", names)
			}
			w.DB.Jump(t, 0)
			w.look(t)
			w.isWhole(t, "when the clock is right again")
			if names := firing(w.Service); len(names) != 0 {
				t.Errorf("when the clock is right again there fire %q", names)
			}
			if text := w.Private(t, "/readyz?verbose"); !strings.Contains(text, `"clock":"ok"`) {
				t.Error(text)
			}
		})
	}
}

// A code that is exchanged while the clock is wrong can be exchanged afterwards.
func TestExchangeWhileTheClockIsWrong(t *testing.T) {
	t.Parallel()
	w := beforeTheJump(t)
	user := w.DB.User(t)
	code := edgetest.Code(t, w.App.OAuth, w.Partner, scope.All, user.ID)
	exchange := func() error {
		_, err := w.App.OAuth.Exchange(t.Context(), edgetest.Credentials(w.Partner), oauth.ExchangeParams{
			Code: code, RedirectURI: w.Partner.CallbackURL, CodeVerifier: edgetest.Verifier,
		})
		return err
	}
	w.DB.Jump(t, time.Hour)
	for range 2 { // before and after a look
		if err := exchange(); !errors.Is(err, clock.ErrDoubted) {
			t.Error(err)
		}
		w.look(t)
	}
	w.DB.Jump(t, 0)
	w.look(t)
	if err := exchange(); err != nil {
		t.Error(err)
	}
}

// Nobody is told of a lapse by a clock that is ahead, also before the service has looked at it.
func TestNoLapseWhileTheClockIsWrong(t *testing.T) {
	t.Parallel()
	w := beforeTheJump(t)
	w.DB.Jump(t, 91*24*time.Hour)
	if err := w.App.OAuth.TellLapses(t.Context()); err != nil {
		t.Error(err)
	}
	if n := pgtest.Value[int](t, w.DB, "select count(*)::int from audit_log where action = 'connection.lapsed'"); n != 0 {
		t.Errorf("%d lapses are in the audit log", n)
	}
	w.DB.Jump(t, 0)
	w.look(t)
	w.isWhole(t, "when the clock is right again")
}

// Before the service has looked at a clock that is wrong, a replaced secret works for its overlap, and not a moment longer.
func TestOverlapWhileTheClockIsWrong(t *testing.T) {
	t.Parallel()
	w := beforeTheJump(t)
	replaced := edgetest.Credentials(w.Partner)
	rotated, err := w.App.Clients.RotateSecret(t.Context(), w.Partner.ID, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	right := func(when string, want error) {
		t.Helper()
		if err := w.App.OAuth.AuthenticateClient(t.Context(), replaced); !errors.Is(err, want) {
			t.Errorf("%s the replaced secret is answered %v", when, err)
		}
		if err := w.App.OAuth.Disconnect(t.Context(), replaced, uuid.New()); !errors.Is(err, want) {
			t.Errorf("%s a disconnect with the replaced secret is answered %v", when, err)
		}
	}
	w.DB.Jump(t, 401*24*time.Hour)
	right("within the overlap, while the clock is ahead,", nil)
	if _, err := w.App.Clients.RotateSeenSecret(t.Context(), w.Partner.ID, 0, rotated.OverlapUntil.Add(time.Second)); !errors.Is(err, client.ErrReplacedSince) {
		t.Errorf("a rotation that ends an overlap which nobody has seen: %v", err)
	}
	w.DB.Jump(t, 0)
	w.DB.Clock.Advance(24 * time.Hour)
	w.DB.Jump(t, -time.Hour)
	right("after the overlap, while the clock is behind,", oauth.ErrInvalidClient)
}

// Nothing that is issued while the clock is an hour ahead, before the service has looked at it, lives for longer than a minute more than it
// should.
func TestNothingOutlivesAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	w := beforeTheJump(t)
	user := w.DB.User(t)
	w.DB.Jump(t, time.Hour)
	if err := w.App.Accounts.SendCode(t.Context(), account.CodeRequest{
		SignIn: uuid.New(), Email: user.Email, Network: netip.MustParseAddr("192.0.2.1"), LinkPath: "/account/link/",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.App.Clients.RotateSecret(t.Context(), w.Partner.ID, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, _, err := operators.NewSessions(w.App.Pool).Start(t.Context(), w.Config.Operators, edgetest.UnnamedToken); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		sql      string
		lifetime time.Duration
	}{
		"a one-time code":           {"select max(expires_at) from sign_ins", account.CodeLifetime},
		"the overlap of secrets":    {"select max(previous_secret_until) from clients", 24 * time.Hour},
		"a session of the console":  {"select max(expires_at) from operator_sessions", operators.SessionLifetime},
		"a limit of one-time codes": {"select max(last_at) from sign_in_limits", 0},
	} {
		if left := time.Until(pgtest.Value[time.Time](t, w.DB, test.sql)); left > test.lifetime+clock.Tolerance || left < test.lifetime-time.Minute {
			t.Errorf("%s lives for %s", what, left)
		}
	}
}

// A server that could not look at the clock when it started decides nothing until it has.
func TestStartWithoutALookAtTheClock(t *testing.T) {
	pgtest.NotOnCluster(t, "its clock is that of each node")
	t.Parallel()
	first := e2e.New(t)
	var log logtest.Buffer
	config := first.Config
	config.Logger = telemetry.NewLogger(&log, slog.LevelInfo)
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	a.SetProbeLimit(time.Second)
	free := first.Hold(t, "lock table servers in access exclusive mode")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	wait.Until(t, "the server serves", func() bool { return strings.Contains(log.String(), `"serving"`) })
	if _, err := a.Pool.Exec(t.Context(), "select connect_now()"); !errors.Is(err, clock.ErrDoubted) {
		t.Errorf("a statement by a clock that nobody has looked at: %v", err)
	}
	free()
	wait.Until(t, "the server has looked at the clock", func() bool {
		_, err := a.Pool.Exec(t.Context(), "select connect_now()")
		return err == nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A sweep deletes what expired within two minutes at most, though nobody knows that the clock is wrong: everything was started while it
// was.
func TestSweepStep(t *testing.T) {
	t.Parallel()
	w := beforeTheJump(t)
	forgetful := e2e.NewOn(t, w.DB, func(c *app.Config) { c.AuditRetention, c.Keys = 400*24*time.Hour, w.Config.Keys })
	w.DB.Jump(t, 401*24*time.Hour)
	for range 3 {
		forgetful.App.SweepStep(t.Context())
	}
	w.DB.Jump(t, 0)
	w.isWhole(t, "after sweeps by a clock that was ahead")
	moved := func() time.Duration {
		return -time.Until(pgtest.Value[time.Time](t, w.DB, "select swept_until from sweeps"))
	}
	forgetful.App.SweepStep(t.Context())
	if ago := moved(); ago < 5*time.Minute || ago > 6*time.Minute {
		t.Errorf("sweeps have deleted until %s ago", ago)
	}
	w.DB.Exec(t, "update sweeps set swept_until = swept_until - interval '1 hour'")
	before := moved()
	forgetful.App.SweepStep(t.Context())
	if step := before - moved(); step < time.Minute || step > 2*time.Minute {
		t.Errorf("a sweep that is late catches up by %s", step)
	}
}

// A server with another rate limiter than one that runs does not start, and begins when that has stopped.
func TestTwoLimiters(t *testing.T) {
	t.Parallel()
	first := e2e.New(t)
	if err := first.App.Look(t.Context(), first.DB.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	second := func() *app.App {
		config := first.Config
		config.LimiterURL = redis.URL()
		a, err := app.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	conflict := new(servers.LimiterError)
	if err := second().Run(t.Context()); !errors.As(err, &conflict) || conflict.Theirs != "PostgreSQL" || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	if err := first.App.Deregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, a := make(chan error, 1), second()
	go func() { ended <- a.Run(ctx) }()
	wait.Until(t, "the server has joined", func() bool {
		return pgtest.Value[int](t, first.DB, "select count(*)::int from servers where limiter like 'Redis %'") == 1
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
