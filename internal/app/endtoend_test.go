package app

import (
	"context"
	"encoding/json"
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
	"connect-svc/internal/scope"
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
	e.app = a
	sending, stop := context.WithCancel(context.Background())
	sent := make(chan struct{})
	go func() { a.Accounts.Run(sending); close(sent) }()
	e.stopRequests = server.Close
	e.stopEmails = func() { stop(); <-sent }
	e.faults = &faults{service: contracttest.Handler(t, a.public.Handler), requests: map[string]int{}}
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

// golang.org/x/oauth2 is the partner's client here, changed in nothing: it form-encodes its Basic credentials, speaks
// PKCE, and refreshes by itself. Every answer to it is held against the contract.
func TestUnmodifiedOAuth2Client(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	http1 := &http.Client{Transport: contracttest.Partner.Transport(t, e.tls)}
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, http1)

	var metadata struct {
		Issuer   string `json:"issuer"`
		AuthURL  string `json:"authorization_endpoint"`
		TokenURL string `json:"token_endpoint"`
	}
	answer, err := http1.Get(e.base + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(answer.Body).Decode(&metadata); err != nil || metadata.Issuer != e.base {
		t.Fatalf("discovery: issuer %q, %v", metadata.Issuer, err)
	}
	config := oauth2.Config{
		ClientID:     e.partner.ID.String(),
		ClientSecret: e.partner.Secret,
		RedirectURL:  e.partner.CallbackURL,
		Scopes:       scope.All.Names(),
		Endpoint:     oauth2.Endpoint{AuthURL: metadata.AuthURL, TokenURL: metadata.TokenURL},
	}
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	callback := e.authorize(t, config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)))
	if callback.Get("state") != state {
		t.Error("the state came back changed")
	}
	token, err := config.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal("exchange: ", codeOf(err))
	}
	grant, _ := token.Extra("grant_id").(string)
	if token.Type() != "Bearer" || token.RefreshToken == "" || grant == "" || token.Extra("scope") != scope.All.String() {
		t.Errorf("type %s, grant %q, scope %v", token.Type(), grant, token.Extra("scope"))
	}

	day := token.Extra("history_from").(string)
	read := func(source oauth2.TokenSource, want int) {
		t.Helper()
		answer, err := oauth2.NewClient(ctx, source).Get(fmt.Sprintf("%s/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", e.base, grant, day, day))
		if err != nil {
			t.Fatal(codeOf(err))
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a read answers %d, want %d", answer.StatusCode, want)
		}
	}
	read(oauth2.StaticTokenSource(token), http.StatusOK)

	e.db.Clock.Advance(6 * time.Minute)
	read(oauth2.StaticTokenSource(token), http.StatusUnauthorized)
	expired := *token
	expired.Expiry = time.Now().Add(-time.Minute) // as the client sees it, whose clock is not shifted
	source := config.TokenSource(ctx, &expired)
	read(source, http.StatusOK)
	refreshed, err := source.Token()
	if err != nil || refreshed.RefreshToken == token.RefreshToken {
		t.Errorf("the refresh returned the old refresh token, or failed: %v", codeOf(err))
	}

	// The used refresh token again: the family ends.
	_, err = config.TokenSource(ctx, &expired).Token()
	if got := codeOf(err); got != "invalid_grant" {
		t.Errorf("a replay answers %s", got)
	}
	read(oauth2.StaticTokenSource(refreshed), http.StatusUnauthorized)

	config.ClientSecret += "x"
	_, err = config.TokenSource(ctx, &expired).Token()
	if got := codeOf(err); got != "invalid_client" {
		t.Errorf("a wrong secret answers %s", got)
	}
}

// codeOf names an error without the answer's text.
func codeOf(err error) string {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return fmt.Sprint(err)
}

// Decisions, section 2: what is not for backends is answered with a page, also where there is none.
func TestUnknownPathsArePages(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	for target, want := range map[string]string{
		"/nothing":                          "text/html; charset=utf-8",
		"/authorize/nobody/sign-in":         "text/html; charset=utf-8",
		"/.well-known/openid-configuration": "text/html; charset=utf-8",
		"/oauth/nothing":                    "application/json",
		"/connect-svc/v1/grants/nothing":    "application/json",
	} {
		answer, err := (&http.Client{Transport: e.tls}).Get(e.base + target)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusNotFound || got != want {
			t.Errorf("%s: %d, %s", target, answer.StatusCode, got)
		}
	}
}
