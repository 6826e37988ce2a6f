package pages

import (
	"net/http"
	"net/netip"
	"testing"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
)

// A browser in which somebody has signed in waits in that user's line, and every other one in that of its network.
func TestLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	p := &pages{Config: Config{OAuth: f.OAuth, Accounts: f.Accounts, TrustedProxies: network.Proxies{netip.MustParsePrefix("10.0.0.0/8")}}}
	account, err := f.Accounts.SealSession(account.SessionKey{UserID: f.User.ID})
	if err != nil {
		t.Fatal(err)
	}
	request, err := f.OAuth.SealSession(oauth.Session{RequestID: f.client.ID, UserID: f.User.ID})
	if err != nil {
		t.Fatal(err)
	}
	asked := f.visitor(t)
	base := asked.open(scope.All)
	stranger := work.Caller{Kind: work.Strangers, Name: "192.0.2.7/32"}
	user := work.Caller{Kind: work.Users, Name: f.User.ID.String()}
	for name, test := range map[string]struct {
		method, path, cookie string
		want                 work.Caller
	}{
		"nobody":                 {http.MethodGet, "/account", "", stranger},
		"a forged session":       {http.MethodGet, "/account", sessionCookie + "=" + account + "A", stranger},
		"one of another kind":    {http.MethodGet, "/account", sessionCookie + "=" + request, stranger},
		"a request, not sign in": {http.MethodGet, base + "/consent", askedCookie + "=" + asked.asked(base).Sealed, stranger},
		"a session":              {http.MethodGet, "/account", sessionCookie + "=" + account, user},
		"a sign-in to a request": {http.MethodGet, base + "/consent", requestSessionCookie + "=" + request, user},
		"one who asks for a code": {http.MethodPost, base + "/sign-in", "",
			work.Caller{Kind: work.Codes, Name: "192.0.2.7/32"}},
		"a new code": {http.MethodPost, "/account/new-code", "", work.Caller{Kind: work.Codes, Name: "192.0.2.7/32"}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, at(test.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		r.Header.Set("Cookie", test.cookie)
		if got := p.caller(r); got != test.want {
			t.Errorf("%s waits in the line of %v", name, got.Kind)
		}
	}
}
