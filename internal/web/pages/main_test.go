package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/brand"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/scope"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/timelimit"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	serviceHost = "connect.example"
	partnerHost = "partner.example"
	callback    = "https://" + partnerHost + "/activity/callback?tenant=7"
	homepage    = "https://www.partner.example/"

	state    = "st~ate-with+odd/&=%chars;'\"<>"
	verifier = "a-verifier.of_at~least-43-characters-0123456789"
	email    = "ada@example.com"
)

// noon is when the clock of a fixture begins: 13:00 in the user's time zone.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is the pages over TLS, on their own database and mail server, with one client and one user.
type fixture struct {
	db       *pgtest.DB
	oauth    *oauth.Server
	accounts *account.Accounts
	registry *client.Registry
	post     *mailtest.Server
	server   *httptest.Server
	log      *logtest.Buffer
	stopMail func() // no page waits for an email after that

	client client.Client
	secret string // of the client
	user   account.User
}

// limits are the defaults of the service.
var limits = account.Settings{CodesPerEmail: 5, CodesPerNetwork: 30}

func newFixture(t *testing.T, settings account.Settings, of ...brand.Brand) *fixture {
	t.Helper()
	db := pgtest.New(t)
	db.Clock.Set(time.Until(noon))
	keys := credential.NewTestKeyring()
	post := mailtest.Start(t, mailtest.Config{})
	mailer, err := account.NewMailer("smtp://"+post.Address, "Activity Connect <connect@service.example>")
	if err != nil {
		t.Fatal(err)
	}
	log := new(logtest.Buffer)
	settings.Limits = wait.Patient
	settings.Logger = slog.New(slog.NewJSONHandler(log, nil))
	f := &fixture{
		db:       db,
		oauth:    oauth.New(db.Pool, keys, oauth.DefaultSettings),
		accounts: account.New(db.Pool, keys, mailer, settings),
		registry: client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient),
		post:     post,
		log:      log,
	}
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() { f.accounts.Run(ctx) })
	stop := func() {
		cancel()
		sending.Wait()
	}
	t.Cleanup(stop)

	var handler atomic.Pointer[http.Handler]
	serve := func(limits timelimit.Limits) {
		pages, err := New(Config{
			OAuth: f.oauth, Accounts: f.accounts, RequestLifetime: oauth.DefaultSettings.RequestLifetime,
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Brand: append(of, settings.Brand)[0], Clients: f.registry,
			Limits: limits,
		})
		if err != nil {
			t.Fatal(err)
		}
		handler.Store(&pages)
	}
	serve(settings.Limits)
	f.stopMail = func() {
		stop()
		hasty := settings.Limits
		hasty.Mail = time.Millisecond
		serve(hasty)
	}
	f.server = httptest.NewUnstartedServer(telemetry.Requests(settings.Logger, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*handler.Load()).ServeHTTP(w, r)
	})))
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(f.server.Close)

	if f.client, f.secret, err = f.registry.Create(t.Context(), client.Registration{
		Name: "Stride & Co", CallbackURL: callback, Scopes: scope.All, Policy: client.DefaultPolicy, HomepageURL: homepage,
	}); err != nil {
		t.Fatal(err)
	}
	f.user = f.newUser(t, email)
	return f
}

func (f *fixture) newUser(t testing.TB, email string) account.User {
	t.Helper()
	user, err := f.accounts.CreateUser(t.Context(), account.NewUser{
		Email: email, Timezone: "Europe/Berlin", RegisteredOn: time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// query is a valid authorization request.
func (f *fixture) query(scopes scope.Set) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{
		"client_id":             {f.client.ID.String()},
		"redirect_uri":          {callback},
		"response_type":         {"code"},
		"scope":                 {scopes.String()},
		"state":                 {state},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(sum[:])},
		"code_challenge_method": {"S256"},
	}
}

// connect makes a connection of the user with these scopes, through the rules.
func (f *fixture) connect(t testing.TB, scopes scope.Set) oauth.Tokens {
	t.Helper()
	ctx := t.Context()
	browser := newSecret().hash()
	id, err := f.oauth.Authorize(ctx, f.query(scopes).Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.oauth.SignedIn(ctx, id, browser, browser, f.user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.oauth.Consent(ctx, id, browser); err != nil {
		t.Fatal(err)
	}
	location, err := f.oauth.Allow(ctx, id, browser)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	params := oauth.ExchangeParams{Code: parsed.Query().Get("code"), RedirectURI: callback, CodeVerifier: verifier}
	tokens, err := f.oauth.Exchange(ctx, f.credentials(), params)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func (f *fixture) credentials() oauth.Credentials {
	return oauth.Credentials{ClientID: f.client.ID, SecretHash: sha256.Sum256([]byte(f.secret))}
}

// partner is the same fixture with another client in place of the first.
func (f *fixture) partner(t testing.TB, name string) *fixture {
	t.Helper()
	other := *f
	var err error
	if other.client, other.secret, err = f.registry.Create(t.Context(), client.Registration{
		Name: name, CallbackURL: callback, Scopes: scope.All, Policy: client.DefaultPolicy,
	}); err != nil {
		t.Fatal(err)
	}
	return &other
}

// visitor is a browser without a screen: it keeps cookies and follows no redirect by itself.
type visitor struct {
	t      testing.TB
	f      *fixture
	client *http.Client
	header http.Header // of every request
}

func (f *fixture) visitor(t testing.TB) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := f.server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "example.com"}
	address := f.server.Listener.Addr().String()
	transport.DialTLSContext = nil
	transport.DialContext = dialTo(address)
	return &visitor{
		t: t, f: f, header: http.Header{"Sec-Fetch-Site": {"same-origin"}},
		client: &http.Client{
			Jar: jar, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// answer is a response that has been read.
type answer struct {
	*http.Response
	page *goquery.Document
	text string
}

func (v *visitor) do(request *http.Request) answer {
	v.t.Helper()
	for name, values := range v.header {
		request.Header[name] = values
	}
	response, err := v.client.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	page, err := goquery.NewDocumentFromReader(bytes.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	return answer{response, page, string(body)}
}

// at makes a path an address of the service.
func at(path string) string {
	if strings.HasPrefix(path, "https://") {
		return path
	}
	return "https://" + serviceHost + path
}

func (v *visitor) get(path string) answer {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, at(path), nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.do(request)
}

func (v *visitor) post(path string, form url.Values) answer {
	v.t.Helper()
	return v.postBody(path, "application/x-www-form-urlencoded", form.Encode())
}

func (v *visitor) postBody(path, contentType, body string) answer {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, at(path), strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	return v.do(request)
}

// location is where an answer sends the browser; the test fails unless it does.
func (v *visitor) location(a answer) string {
	v.t.Helper()
	if a.StatusCode != http.StatusSeeOther {
		v.t.Fatalf("status = %d, want 303; page %q", a.StatusCode, a.page.Find("title").Text())
	}
	return a.Header.Get("Location")
}

// open begins a request and returns the path that its pages have in common.
func (v *visitor) open(scopes scope.Set) string {
	v.t.Helper()
	location := v.location(v.get("/oauth/authorize?" + v.f.query(scopes).Encode()))
	base, found := strings.CutSuffix(location, "/sign-in")
	id, hasID := strings.CutPrefix(base, "/authorize/")
	if _, err := uuid.Parse(id); err != nil || !found || !hasID {
		v.t.Fatalf("location = %q, want /authorize/{uuid}/sign-in", location)
	}
	return base
}

// ask has a code sent and reads it in the email.
func (v *visitor) ask(base, email string) string {
	v.t.Helper()
	if got := v.location(v.post(base+"/sign-in", url.Values{"email": {email}})); got != base+"/code" {
		v.t.Fatalf("location = %q", got)
	}
	return v.f.post.Next(v.t).Code
}

// signIn goes from the first page to the consent.
func (v *visitor) signIn(base string) {
	v.t.Helper()
	code := v.ask(base, email)
	if got := v.location(v.post(base+"/code", url.Values{"code": {code}})); got != base+"/consent" {
		v.t.Fatalf("location = %q", got)
	}
}

// consent opens a request, signs in and shows the consent page.
func (v *visitor) consent(scopes scope.Set) (base string, page answer) {
	v.t.Helper()
	base = v.open(scopes)
	v.signIn(base)
	return base, v.get(base + "/consent")
}

// isError fails the test unless a is the error page of this template's heading.
func (v *visitor) isError(a answer, status int, heading string) {
	v.t.Helper()
	if a.StatusCode != status || a.page.Find("h1").Text() != heading || a.Header.Get("Location") != "" {
		v.t.Errorf("status %d, heading %q, location %q; want %d, %q and none",
			a.StatusCode, a.page.Find("h1").Text(), a.Header.Get("Location"), status, heading)
	}
	if got := a.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		v.t.Errorf("content type = %q", got)
	}
}

const (
	headingRefused   = "This link doesn’t work"
	headingUnknown   = "This link doesn’t work"
	headingDecided   = "You’ve already decided"
	headingExpired   = "This took too long"
	headingElsewhere = "Continue in the browser you started in"
	headingPartner   = "Stride & Co can’t connect right now"
	headingForm      = "We couldn’t read this form"
	headingTooMany   = "Too many codes"
	headingMissing   = "Page not found"
)

// secret is what the visitor's cookie holds.
func (v *visitor) secret() secret {
	v.t.Helper()
	service, err := url.Parse(at("/"))
	if err != nil {
		v.t.Fatal(err)
	}
	request := &http.Request{Header: http.Header{}}
	for _, cookie := range v.client.Jar.Cookies(service) {
		request.AddCookie(cookie)
	}
	s, ok := secretIn(request, browserCookie)
	if !ok {
		v.t.Fatal("the visitor has no secret")
	}
	return s
}

// stylesheet is the path under which it is served.
func (v *visitor) stylesheet() string {
	path, _ := v.get("/nothing").page.Find("link[rel=stylesheet]").Attr("href")
	return path
}

// idOf is the request's id in the path of its pages.
func idOf(t testing.TB, base string) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(strings.TrimPrefix(base, "/authorize/"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}
