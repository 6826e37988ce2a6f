//go:build timed

package standstill_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// whole is the whole service as a process runs it, with its background work, behind the listeners that it has there.
type whole struct {
	*e2e.Service    // beside it, on the same database: it lets users connect
	service         *app.App
	public, private string            // where it is
	plain           http.RoundTripper // to the private listener
}

func newWhole(t *testing.T, db *pgtest.DB, change ...func(*app.Config)) *whole {
	t.Helper()
	var config app.Config
	w := &whole{Service: e2e.NewOn(t, db, append(change, func(c *app.Config) {
		c.Operators, c.DevelopersSite = edgetest.Tokens(t), true
		config = *c
	})...)}
	config.Certificate = listener.FixedCertificate(&w.Server.TLS.Certificates[0])
	w.service = runUntilCleanup(t, config)
	w.public, w.private = "https://"+w.service.PublicAddr().String(), "http://"+w.service.PrivateAddr().String()
	w.TLS = manyConnections(t, w.TLS.(*http.Transport), w.public+"/.well-known/oauth-authorization-server")
	w.plain = manyConnections(t, new(http.Transport), w.private+"/healthz")
	return w
}

// manyConnections has a connection for each that is asked at one time: what is measured is answers, and no handshakes.
func manyConnections(t *testing.T, like *http.Transport, ready string) *http.Transport {
	t.Helper()
	transport := like.Clone()
	transport.MaxIdleConnsPerHost = 50
	t.Cleanup(transport.CloseIdleConnections)
	for range transport.MaxIdleConnsPerHost {
		answer, err := (&http.Client{Transport: transport}).Get(ready)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { // until then the connection is taken
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}()
	}
	return transport
}

// asks are a request for everything, each with a user and credentials of its own. Done one after the other all succeed.
func (w *whole) asks(t *testing.T) []ask {
	t.Helper()
	return append(append(w.partnerAsks(t), w.operatorAsks(t)...), append(append(w.pageAsks(t), w.consoleAsks(t)...), w.otherAsks(t)...)...)
}

// connected is somebody's new connection.
func (w *whole) connected(t *testing.T) (pgtest.User, oauth.Tokens) {
	t.Helper()
	user := w.DB.User(t)
	return user, edgetest.Connect(t, w.App.OAuth, w.Partner, scope.All, user.ID)
}

func (w *whole) partnerAsks(t *testing.T) []ask {
	t.Helper()
	_, refreshed := w.connected(t)
	_, revoked := w.connected(t)
	_, halfRevoked := w.connected(t)
	_, disconnected := w.connected(t)
	_, read := w.connected(t)
	code := edgetest.Code(t, w.App.OAuth, w.Partner, scope.All, w.DB.User(t).ID)
	partners := &http.Client{Transport: w.TLS}
	act := func(operation, path string, form url.Values) ask {
		return ask{operation, contracttest.Partner.Transport, partners, http.MethodPost, w.public + path, w.basic(), form.Encode(), actLimit, 200, 500}
	}
	reading := func(operation, path string) ask {
		day := read.HistoryFrom.Format(time.DateOnly)
		return ask{operation, contracttest.Partner.Transport, partners, http.MethodGet, fmt.Sprintf("%s/connect-svc/v1/grants/%s/%s?from=%s&to=%s", w.public, read.GrantID, path, day, day),
			http.Header{"Authorization": {"Bearer " + read.AccessToken}}, "", readLimit, 200, 503}
	}
	disconnect := ask{"disconnectGrant", contracttest.Partner.Transport, partners, http.MethodDelete, w.public + "/connect-svc/v1/customer/grants/" + disconnected.GrantID.String(),
		w.basic(), "", actLimit, 204, 500}
	disconnect.header.Del("Content-Type")
	return []ask{
		{"getAuthorizationServerMetadata", contracttest.Partner.Transport, partners, http.MethodGet, w.public + "/.well-known/oauth-authorization-server",
			nil, "", actLimit, 200, 200},
		act("requestToken", "/oauth/token", url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {w.Partner.CallbackURL}, "code_verifier": {edgetest.Verifier},
		}),
		w.refreshing(refreshed.RefreshToken),
		act("revokeToken", "/oauth/revoke", url.Values{"token": {revoked.RefreshToken}}),
		act("revokeToken", "/oauth/revoke", url.Values{"token": {halfRevoked.AccessToken}}),
		reading("readDailyActivity", "daily-activity"),
		reading("readCyclingDaily", "cycling-daily"),
		reading("readCyclingActivities", "cycling-activities"),
		disconnect,
	}
}

func (w *whole) refreshing(token string) ask {
	return ask{"requestToken", contracttest.Partner.Transport, &http.Client{Transport: w.TLS}, http.MethodPost, w.public + "/oauth/token", w.basic(),
		url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}.Encode(), actLimit, 200, 500}
}

// basic is the client's authentication, for a form.
func (w *whole) basic() http.Header {
	request := http.Request{Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
	request.SetBasicAuth(w.Partner.ID.String(), url.QueryEscape(w.Partner.Secret))
	return request.Header
}

func (w *whole) operatorAsks(t *testing.T) []ask {
	t.Helper()
	user, _ := w.connected(t)
	leaving, _ := w.connected(t)
	deleted := w.DB.User(t).ID
	one := w.operatorAsk
	users := "/operator/v1/users"
	named := users + "/" + user.ID.String()
	newcomer := fmt.Sprintf(`{"user_id":%q,"email":"%s@users.example","timezone":"Europe/Berlin","registered_on":"2026-01-31"}`, uuid.New(), uuid.New())
	many := fmt.Sprintf(`{"users":[{"user_id":%q,"email":"%s@users.example","timezone":"UTC","registered_on":"2026-01-31"}]}`, uuid.New(), uuid.New())
	batch := fmt.Sprintf(`{"daily_steps":[{"user_id":%q,"date":"2026-11-20","steps":8421}]}`, user.ID)
	return append([]ask{
		one("createUser", http.MethodPost, users, newcomer, actLimit, 201),
		one("putUsers", http.MethodPut, users, many, batchLimit, 200),
		one("readUser", http.MethodGet, named, "", actLimit, 200),
		one("changeUser", http.MethodPatch, named, `{"timezone":"Asia/Tokyo"}`, actLimit, 200),
		one("deleteUser", http.MethodDelete, users+"/"+deleted.String(), "", actLimit, 204),
		one("listConnections", http.MethodGet, named+"/connections", "", actLimit, 200),
		one("disconnectUser", http.MethodDelete, users+"/"+leaving.ID.String()+"/connections/"+w.Partner.ID.String(), "", actLimit, 204),
		one("previewActivity", http.MethodPost, "/operator/v1/activity/preview", batch, batchLimit, 200),
		one("putActivity", http.MethodPost, "/operator/v1/activity", batch, batchLimit, 200),
	}, w.supportAsks(t)...)
}

// otherAsks are what has no document: the private pages, and what is static.
func (w *whole) otherAsks(*testing.T) []ask {
	one := func(path string, fault int) ask {
		return ask{"GET " + path, nil, &http.Client{Transport: w.plain}, http.MethodGet, w.private + path, nil, "", actLimit, 200, fault}
	}
	moved := one("/usage", 303)
	moved.well = 303
	moved.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	site := one("/developers/", 200)
	site.client, site.url = &http.Client{Transport: w.TLS}, w.public+"/developers/"
	return []ask{
		one("/healthz", 200), one("/readyz", 200), one("/metrics", 200), moved, site,
	}
}

// visitor is a browser that has been sent to the sign-in of a request, or of the account pages.
type visitor struct {
	*whole
	client *http.Client
	base   string // of the pages of the sign-in
}

func (w *whole) visitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{w, &http.Client{Transport: w.TLS, Jar: jar, CheckRedirect: stay}, "/account"}
}

// comes begins an authorization request in the browser. Each has its own pages.
func (v *visitor) comes(t *testing.T) *visitor {
	t.Helper()
	location := v.must(t, http.MethodGet, v.authorizationPath(), nil)
	return &visitor{v.whole, v.client, strings.TrimSuffix(location, "/sign-in")}
}

func (v *visitor) authorizationPath() string {
	config := oauth2.Config{
		ClientID: v.Partner.ID.String(), RedirectURL: v.Partner.CallbackURL, Scopes: scope.All.Names(), Endpoint: oauth2.Endpoint{AuthURL: "/oauth/authorize"},
	}
	return config.AuthCodeURL(strings.Repeat("s", 22), oauth2.S256ChallengeOption(edgetest.Verifier))
}

// typed is after the address: it returns the code of the email.
func (v *visitor) typed(t *testing.T, user pgtest.User) (code string) {
	t.Helper()
	v.must(t, http.MethodPost, v.base+"/sign-in", url.Values{"email": {user.Email}})
	return v.Mail.Next(t).Code
}

// linked is after the address, too: it returns the path of the email's link below the visitor's pages.
func (v *visitor) linked(t *testing.T, user pgtest.User) (path string) {
	t.Helper()
	v.must(t, http.MethodPost, v.base+"/sign-in", url.Values{"email": {user.Email}})
	_, link, found := strings.Cut(v.Mail.Next(t).Text, v.base+"/link/")
	if !found {
		t.Fatal("the email has no link")
	}
	return "/link/" + strings.Fields(link)[0]
}

// link are requests for the link of an email: it is opened, and then signs in.
func (v *visitor) link(t *testing.T, user pgtest.User) []ask {
	t.Helper()
	path := v.linked(t, user)
	open, signIn := v.page(http.MethodGet, "/link/{link}", nil, 200), v.page(http.MethodPost, "/link/{link}", nil, 303)
	open.url, signIn.url = v.public+v.base+path, v.public+v.base+path
	return []ask{open, signIn}
}

// signedIn is after the code.
func (v *visitor) signedIn(t *testing.T, user pgtest.User) *visitor {
	t.Helper()
	v.must(t, http.MethodPost, v.base+"/code", url.Values{"code": {v.typed(t, user)}})
	return v
}

// must send the browser on.
func (v *visitor) must(t *testing.T, method, path string, form url.Values) (location string) {
	t.Helper()
	got, err := v.ask(method, "", path, form, 303).send(t)
	if err != nil || got.status != http.StatusSeeOther {
		t.Fatalf("%s %s answers %d, %v", method, path, got.status, err)
	}
	return got.header.Get("Location")
}

func (v *visitor) ask(method, pattern, path string, form url.Values, well int) ask {
	a := ask{method + " " + pattern, nil, v.client, method, v.public + path, nil, form.Encode(), actLimit, well, 500}
	if method == http.MethodPost {
		a.header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	}
	return a
}
