package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/audit"
	"connect-svc/internal/brand"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/operators"
	"connect-svc/internal/overview"
	"connect-svc/internal/scope"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/usage"
	userpages "connect-svc/internal/web/pages"
	"connect-svc/internal/web/site"
	"connect-svc/internal/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	unnamedToken = "0123456789abcdef0123456789abcdef"
	adaToken     = "svco_ada-ada-ada-ada-ada-ada-ada-ada"
	graceToken   = "svco_grace-grace-grace-grace-grace"
	verifier     = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

// start is when the clock of a fixture begins.
var start = time.Date(2026, 3, 10, 12, 34, 0, 0, time.UTC)

// fixture is the console with everything behind it, on a database of its own with one user.
type fixture struct {
	config Config
	db     *pgtest.DB
	user   pgtest.User
	server *httptest.Server
	log    *logtest.Buffer
}

// newFixture lets ada change, and grace look.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{db: pgtest.New(t), log: new(logtest.Buffer)}
	f.db.Clock.Set(time.Until(start))
	f.user = f.db.User(t)
	keys := credential.NewTestKeyring()
	f.config = Config{
		Operators: newTokens(t, "ada write", adaToken, "grace read", graceToken),
		Sessions:  operators.NewSessions(f.db.Pool),
		Accounts: account.New(f.db.Pool, keys, nil, account.Settings{
			EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUsers,
			Limits: wait.Patient,
		}),
		Activity: activity.New(f.db.Pool, keys, activity.Settings{CursorLifetime: time.Minute}),
		OAuth:    oauth.New(f.db.Pool, keys, oauth.DefaultSettings),
		Clients:  client.NewRegistry(f.db.Pool, oauth.EndConnectionsOfClient),
		Webhooks: webhook.New(f.db.Pool, keys, webhook.Settings{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		Usage:    usage.New(f.db.Pool, wait.Patient, slog.New(slog.DiscardHandler), f.db.Clock.Now),
		Audit:    audit.New(f.db.Pool, wait.Patient, 0),
		Facts:    func(context.Context) overview.Facts { return quietService() },
		Now:      f.db.Clock.Now,
		Limits:   wait.Patient,
	}
	var err error
	if f.config.Consent, err = userpages.NewConsentPreview(PreviewFiles, brand.Brand{}, nil, f.db.Clock.Now); err != nil {
		t.Fatal(err)
	}
	f.serve(t)
	return f
}

// newTokens are the token without a name, and those of a file: pairs of a line's beginning and a token.
func newTokens(t testing.TB, lines ...string) *operators.Tokens {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(lines); i += 2 {
		fmt.Fprintf(&text, "%s sha256:%x\n", lines[i], credential.Hash(lines[i+1]))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := operators.New(credential.Hash(unnamedToken), file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// serve serves what is configured now.
func (f *fixture) serve(t testing.TB) {
	t.Helper()
	handler, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.server = httptest.NewServer(telemetry.Requests(telemetry.NewLogger(f.log, slog.LevelDebug), handler))
	t.Cleanup(f.server.Close)
}

// connect connects the user with a new partner, as browser and backend do.
func (f *fixture) connect(t testing.TB, name string) (pgtest.Client, oauth.Tokens) {
	t.Helper()
	partner := f.db.Client(t, func(c *pgtest.Client) { c.Name = name })
	browser := sha256.Sum256([]byte(name))
	challenge := sha256.Sum256([]byte(verifier))
	request, err := f.config.OAuth.Authorize(t.Context(), url.Values{
		"client_id": {partner.ID.String()}, "redirect_uri": {partner.CallbackURL}, "response_type": {"code"}, "scope": {scope.All.String()},
		"state":          {"0123456789012345678901"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.config.OAuth.SignedIn(t.Context(), request, browser, browser, f.user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.config.OAuth.Consent(t.Context(), request, browser); err != nil {
		t.Fatal(err)
	}
	callback, err := f.config.OAuth.Allow(t.Context(), request, browser)
	if err != nil {
		t.Fatal(err)
	}
	back, err := url.Parse(callback)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.config.OAuth.Exchange(t.Context(), f.credentials(t, partner), oauth.ExchangeParams{
		Code: back.Query().Get("code"), RedirectURI: partner.CallbackURL, CodeVerifier: verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return partner, tokens
}

// credentials of a partner, as its backend shows them.
func (f *fixture) credentials(t testing.TB, partner pgtest.Client) oauth.Credentials {
	t.Helper()
	credentials, err := oauth.NewCredentials(partner.ID.String(), partner.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// visitor is a browser without scripts.
type visitor struct {
	t      testing.TB
	base   string
	client *http.Client
	header http.Header // of each request
}

func (f *fixture) visitor(t testing.TB) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, f.server.URL, &http.Client{
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, http.Header{"Sec-Fetch-Site": {"same-origin"}}}
}

// signedIn is a browser in which the holder of a token has signed in.
func (f *fixture) signedIn(t testing.TB, token string) *visitor {
	t.Helper()
	v := f.visitor(t)
	v.goes(v.post(Path+"/sign-in", "token", token), Path)
	return v
}

// page is a response that has been read.
type page struct {
	*http.Response
	*goquery.Document
	text string
}

func (v *visitor) send(method, path, contentType, body string) page {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	for name, values := range v.header {
		request.Header[name] = values
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := v.client.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	document, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	for name, want := range map[string]string{"Content-Security-Policy": site.Policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
		if got := response.Header.Get(name); got != want {
			v.t.Errorf("%s %s: %s: %q", method, path, name, got)
		}
	}
	if cached := response.Header.Get("Cache-Control"); cached != "no-store" && !strings.HasPrefix(path, Path+"/static/") {
		v.t.Errorf("%s %s may be cached: %s", method, path, cached)
	}
	text, err := document.Html()
	if err != nil {
		v.t.Fatal(err)
	}
	return page{response, document, text}
}

func (v *visitor) get(path string) page {
	v.t.Helper()
	return v.send(http.MethodGet, path, "", "")
}

// post sends a form: pairs of a name and a value.
func (v *visitor) post(path string, fields ...string) page {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return v.send(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode())
}

// goes holds a response to be a redirect to a path, and opens it.
func (v *visitor) goes(p page, path string) {
	v.t.Helper()
	if got := p.Header.Get("Location"); p.StatusCode != http.StatusSeeOther || got != path {
		v.t.Fatalf("%s: status %d to %q, want %q", p.Request.URL.Path, p.StatusCode, got, path)
	}
}

// shows holds a response to be a page with a heading, and with texts.
func (v *visitor) shows(p page, heading string, texts ...string) {
	v.t.Helper()
	if got := strings.TrimSpace(p.Find("h1").Text()); got != heading {
		v.t.Fatalf("%s: status %d, heading %q, want %q", p.Request.URL.Path, p.StatusCode, got, heading)
	}
	all := strings.Join(strings.Fields(p.Find("body").Text()), " ")
	for _, want := range texts {
		if !strings.Contains(all, want) {
			v.t.Errorf("%s does not say %q", p.Request.URL.Path, want)
		}
	}
}

// fails holds a response to be an error's page.
func (v *visitor) fails(p page, status int, heading string) {
	v.t.Helper()
	if p.StatusCode != status {
		v.t.Errorf("%s %s: status %d, want %d", p.Request.Method, p.Request.URL.Path, p.StatusCode, status)
	}
	v.shows(p, heading)
}
