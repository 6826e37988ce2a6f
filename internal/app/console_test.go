package app

import (
	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// browse sends a request of a browser in which somebody may be signed in to the console.
func browse(t *testing.T, handler http.Handler, method, path string, session *http.Cookie, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
	request.Host = "127.0.0.1:9090"
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if session != nil {
		request.AddCookie(session)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// The console is on the private listener alone, and there without a token it is not.
func TestConsoleIsPrivate(t *testing.T) {
	t.Parallel()
	a, _, _ := openWith(t, func(c *Config) { c.Operators = edgetest.Tokens(t) })
	defer a.Close()
	off, _, _ := open(t)
	defer off.Close()
	for _, path := range []string{"/console", "/console/", "/console/sign-in", "/console/users", "//console", "/x/../console"} {
		if got := browse(t, a.public.HTTP.Handler, http.MethodGet, path, nil, nil); got.Code != http.StatusNotFound {
			t.Errorf("%s on the public listener: %d", path, got.Code)
		}
		if got := browse(t, off.private.HTTP.Handler, http.MethodGet, path, nil, nil); strings.HasPrefix(path, "/console") && got.Code != http.StatusNotFound {
			t.Errorf("%s without a token: %d", path, got.Code)
		}
	}
	if got := browse(t, a.private.HTTP.Handler, http.MethodGet, "/console/sign-in", nil, nil); got.Code != http.StatusOK {
		t.Errorf("the sign-in on the private listener: %d", got.Code)
	}
}

// A session is one on all servers, and ends with its token on each that has read its list again.
func TestConsoleSessionOnAllServers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	keys := credential.NewTestKeyring()
	with := func(c *Config) { c.Operators, c.Keys = edgetest.Tokens(t), keys }
	one, _ := openOn(t, db, with)
	defer one.Close()
	two, _ := openOn(t, db, with)
	defer two.Close()
	answer := browse(t, one.PrivateHandler(), http.MethodPost, "/console/sign-in", nil, url.Values{"token": {edgetest.UnnamedToken}})
	if answer.Code != http.StatusSeeOther || len(answer.Result().Cookies()) != 1 {
		t.Fatalf("the sign-in: %d", answer.Code)
	}
	session := answer.Result().Cookies()[0]
	users := func(a *App) int {
		return browse(t, a.PrivateHandler(), http.MethodGet, "/console/users", session, nil).Code
	}
	if users(one) != http.StatusOK || users(two) != http.StatusOK {
		t.Errorf("on one server %d, on the other %d", users(one), users(two))
	}
	config := two.config
	var err error
	if config.Operators, err = operators.New(credential.Hash(strings.Repeat("x", 32)), ""); err != nil {
		t.Fatal(err)
	}
	if err := two.Reload(config, nil); err != nil {
		t.Fatal(err)
	}
	if users(one) != http.StatusOK || users(two) != http.StatusSeeOther {
		t.Errorf("after the token went: on one server %d, on the other %d", users(one), users(two))
	}
}
