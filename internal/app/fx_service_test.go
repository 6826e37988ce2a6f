package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"connect-svc/internal/account"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// endToEnd is the whole service behind TLS with a mail server, a partner and a user. Every answer that a backend gets
// is held against the contract.
type endToEnd struct {
	server  *httptest.Server
	app     *App
	config  Config // that app was opened with
	db      *pgtest.DB
	base    string
	mail    *mailtest.Server
	tls     http.RoundTripper
	partner pgtest.Client
	user    pgtest.User
	faults  *faults // in front of the service

	stopRequests func() // and wait until the last is done
	stopEmails   func() // and wait until the last is sent
}

func newEndToEnd(t *testing.T, change ...func(*Config)) *endToEnd {
	t.Helper()
	return newEndToEndOn(t, pgtest.New(t), change...)
}

func newEndToEndOn(t *testing.T, db *pgtest.DB, change ...func(*Config)) *endToEnd {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	e := &endToEnd{server: server, db: db, base: "https://" + server.Listener.Addr().String(), mail: mailtest.Start(t, mailtest.Config{})}
	e.partner, e.user = e.db.Client(t), e.db.User(t)
	mailer, err := account.NewMailer("smtp://"+e.mail.Address, "no-reply@example.com")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		BaseURL:        e.base,
		DatabaseURL:    e.db.URL,
		Keys:           credential.NewTestKeyring(),
		Listen:         "127.0.0.1:0",
		PrivateListen:  "127.0.0.1:0",
		Mailer:         mailer,
		OAuth:          oauth.DefaultSettings,
		CursorLifetime: 15 * time.Minute,
		Clock:          e.db.Clock,
		Logger:         telemetry.NewLogger(t.Output(), slog.LevelWarn),
		Limits:         wait.Patient,
	}
	for _, f := range change {
		f(&config)
	}
	a, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	e.app, e.config = a, config
	sending, stop := context.WithCancel(context.Background())
	sent := make(chan struct{})
	go func() { a.Accounts.Run(sending); close(sent) }()
	e.stopRequests = server.Close
	e.stopEmails = func() { stop(); <-sent }
	e.faults = &faults{service: contracttest.Handler(t, a.Handler()), requests: map[string]int{}}
	server.Config.Handler = e.faults
	server.StartTLS()
	e.tls = server.Client().Transport
	t.Cleanup(func() {
		server.Close()
		e.stopEmails()
		a.Close()
	})
	return e
}

// authorize plays the user's browser from the authorization URL to the callback, whose query it returns.
func (e *endToEnd) authorize(t *testing.T, authorizationURL string) url.Values {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	partner, err := url.Parse(e.partner.CallbackURL)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Transport: e.tls, Jar: jar, CheckRedirect: func(request *http.Request, _ []*http.Request) error {
		if request.URL.Host == partner.Host {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := browser.Get(authorizationURL)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(wantPage string, form url.Values) {
		t.Helper()
		_ = page.Body.Close()
		if page.StatusCode != http.StatusOK || path.Base(page.Request.URL.Path) != wantPage {
			t.Fatalf("the browser is at %s with %d, want the page %s", path.Base(page.Request.URL.Path), page.StatusCode, wantPage)
		}
		if page, err = browser.PostForm(page.Request.URL.String(), form); err != nil {
			t.Fatal(err)
		}
	}
	submit("sign-in", url.Values{"email": {e.user.Email}})
	submit("code", url.Values{"code": {e.mail.Next(t).Code}})
	submit("consent", url.Values{"decision": {"allow"}})
	defer page.Body.Close()
	location, err := page.Location()
	if err != nil || page.StatusCode != http.StatusSeeOther {
		t.Fatalf("Allow answers %d: %v", page.StatusCode, err)
	}
	return location.Query()
}

// codeOf names an error without the answer's text.
func codeOf(err error) string {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return fmt.Sprint(err)
}
