// Package e2e has the fixture of the tests of the whole service: TLS in front of all that package app puts together, a mail server, a
// partner and a user, and the faults that a test plants between them. Every answer that a backend gets is held against the contract.
//
// The tests are in a package for each promise of docs/reliability.md and docs/threat-model.md:
//
//   - isolation: one caller's trouble is its own; the rate policy is one for all servers
//   - restart: PostgreSQL, PgBouncer, proxies and servers go and come back; migrations run beside traffic; a soak
//   - standstill: whatever hangs, answers come in time (measured: build tag timed)
//   - cluster: read replicas, and Citus (build tag citus)
//   - backup: backup and restore, keysets
//   - sdk: the SDKs and other people's OAuth clients (some have the build tag check)
//   - mail: emails reach their recipients whole through other people's mail servers (build tag check)
//   - users: what becomes of users who are changed or deleted
//   - observability: metrics, alerts, traces, usage
package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"golang.org/x/oauth2"
)

// Service is the whole service behind TLS with a mail server, a partner and a user. Every answer that a backend gets
// is held against the contract.
type Service struct {
	Server  *httptest.Server
	App     *app.App
	Config  app.Config // that app was opened with
	DB      *pgtest.DB
	Base    string
	Mail    *mailtest.Server
	TLS     http.RoundTripper
	Partner pgtest.Client
	User    pgtest.User
	Faults  *Faults // in front of the service

	StopRequests func() // and wait until the last is done
	StopEmails   func() // and wait until the last is sent
}

// New is a service on a database of its own. The changes are made to its configuration.
func New(t *testing.T, change ...func(*app.Config)) *Service {
	t.Helper()
	return NewOn(t, pgtest.New(t), change...)
}

// NewOn is New on a database that others may use, too.
func NewOn(t *testing.T, db *pgtest.DB, change ...func(*app.Config)) *Service {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	e := &Service{Server: server, DB: db, Base: "https://" + server.Listener.Addr().String(), Mail: mailtest.Start(t, mailtest.Config{})}
	e.Partner, e.User = e.DB.Client(t), e.DB.User(t)
	config := configOn(t, db, e.Base, e.Mail.Address)
	for _, f := range change {
		f(&config)
	}
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	e.App, e.Config = a, config
	sending, stop := context.WithCancel(context.Background())
	sent := make(chan struct{})
	go func() { a.Accounts.Run(sending); close(sent) }()
	e.StopRequests = server.Close
	e.StopEmails = func() { stop(); <-sent }
	e.Faults = &Faults{service: contracttest.Handler(t, a.Handler()), requests: map[string]int{}}
	server.Config.Handler = e.Faults
	server.StartTLS()
	e.TLS = server.Client().Transport
	t.Cleanup(func() {
		server.Close()
		e.StopEmails()
		a.Close()
	})
	return e
}

// Open is a service on a database, with the keyset of a file. It is not running, and sends no emails.
func Open(t *testing.T, db *pgtest.DB, keyset string) *app.App {
	t.Helper()
	config := configOn(t, db, "https://connect.example.com", "127.0.0.1:25")
	var err error
	if config.Keys, err = credential.LoadKeyring(keyset); err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func configOn(t *testing.T, db *pgtest.DB, base, mailServer string) app.Config {
	t.Helper()
	mailer, err := account.NewMailer("smtp://"+mailServer, "no-reply@example.com")
	if err != nil {
		t.Fatal(err)
	}
	return app.Config{
		BaseURL:       base,
		Database:      settings.Database{DatabaseURL: db.URL},
		Keys:          credential.NewTestKeyring(),
		Listen:        "127.0.0.1:0",
		PrivateListen: "127.0.0.1:0",
		Mailer:        mailer,
		OAuth:         oauth.DefaultSettings,
		Activity:      activity.Settings{CursorLifetime: 15 * time.Minute},
		Clock:         db.Clock,
		Logger:        telemetry.NewLogger(t.Output(), slog.LevelWarn),
		Limits:        wait.Patient,
	}
}

// Authorize plays the user's browser from the authorization URL to the callback, whose query it returns.
func (e *Service) Authorize(t *testing.T, authorizationURL string) url.Values {
	t.Helper()
	browser := edgetest.Visit(t, e.Server, e.Base)
	pages := strings.TrimSuffix(browser.Location(browser.Get(authorizationURL)), "/sign-in")
	submit := func(page, field, value string) string {
		t.Helper()
		if shown := browser.Get(pages + page); shown.StatusCode != http.StatusOK {
			t.Fatalf("the page %s answers %d", page, shown.StatusCode)
		}
		return browser.Location(browser.Post(pages+page, field, value))
	}
	submit("/sign-in", "email", e.User.Email)
	submit("/code", "code", e.Mail.Next(t).Code)
	callback, err := url.Parse(submit("/consent", "decision", "allow"))
	if err != nil {
		t.Fatal(err)
	}
	return callback.Query()
}

// CodeOf names an error without the answer's text.
func CodeOf(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return refused.ErrorCode
	}
	return fmt.Sprint(err)
}
