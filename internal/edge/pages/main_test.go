package pages

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	serviceHost = "connect.example"
	partnerHost = "partner.example"
	callback    = "https://" + partnerHost + "/activity/callback?tenant=7"
	homepage    = "https://www.partner.example/"

	state = edgetest.State
	email = "ada@example.com"
)

// noon is when the time of a fixture begins: 13:00 in the user's time zone.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is the pages over TLS with everything behind them, a mail server and one client.
type fixture struct {
	edgetest.Backend
	post     *mailtest.Server
	server   *httptest.Server
	routes   http.Handler
	copies   Copy   // see serve
	serve    func() // serves what is configured now
	stopMail func() // no page waits for an email after that
	client   pgtest.Client
}

// limits are the defaults of the service.
var limits = account.Settings{CodesPerEmail: 5, CodesPerNetwork: 30}

func newFixture(t *testing.T, settings account.Settings, of ...brand.Brand) *fixture {
	t.Helper()
	f := &fixture{Backend: edgetest.New(t, noon, living(email)), post: mailtest.Start(t, mailtest.Config{})}
	mailer, err := account.NewMailer("smtp://"+f.post.Address, "Activity Connect <connect@service.example>")
	if err != nil {
		t.Fatal(err)
	}
	settings.BaseURL = "https://" + serviceHost
	settings.EndConnections, settings.EndRequests = oauth.EndConnectionsOfUser, oauth.EndRequestsOfUsers
	settings.FindConnection = FindConnection(f.OAuth)
	settings.Limits = wait.Patient
	settings.Logger = slog.New(slog.NewJSONHandler(f.Log, nil))
	f.Accounts = account.New(f.DB.Pool, f.Keys, mailer, settings)
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() { f.Accounts.Run(ctx) })
	stop := func() {
		cancel()
		sending.Wait()
	}
	t.Cleanup(stop)

	var handler atomic.Pointer[http.Handler]
	serve := func(limits work.Limits) {
		pages, err := New(Config{
			BaseURL: settings.BaseURL, OAuth: f.OAuth, Accounts: f.Accounts, Activity: f.Activity, RequestLifetime: oauth.DefaultSettings.RequestLifetime,
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Brand: append(of, settings.Brand)[0], Clients: f.Clients,
			Copy: f.copies, Now: f.DB.Now, Limits: limits,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.routes = pages
		handler.Store(&pages)
	}
	f.copies = func(ctx context.Context, w io.Writer, user account.User) error {
		return f.WriteCopy(work.WithActor(ctx, "user"), w, user, "account_pages")
	}
	f.serve = func() { serve(settings.Limits) }
	f.serve()
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

	f.client = f.newClient(t, "Stride & Co")
	f.DB.Exec(t, "update clients set homepage_url = $1", homepage)
	return f
}

// living is a user in Berlin.
func living(email string) func(*pgtest.User) {
	return func(u *pgtest.User) { u.Email, u.Timezone = email, "Europe/Berlin" }
}

func (f *fixture) newUser(t testing.TB, email string) pgtest.User {
	t.Helper()
	return f.DB.User(t, living(email))
}

func (f *fixture) newClient(t testing.TB, name string) pgtest.Client {
	t.Helper()
	return f.DB.Client(t, func(c *pgtest.Client) { c.Name, c.CallbackURL = name, callback })
}

// query is a valid authorization request.
func (f *fixture) query(scopes scope.Set) url.Values {
	return edgetest.AuthorizationQuery(f.client, scopes)
}

// connect makes a connection of the user with these scopes, through the rules.
func (f *fixture) connect(t testing.TB, scopes scope.Set) oauth.Tokens {
	t.Helper()
	return f.Connect(t, f.client, scopes)
}

// partner is the same fixture with another client in place of the first.
func (f *fixture) partner(t testing.TB, name string) *fixture {
	t.Helper()
	other := *f
	other.client = f.newClient(t, name)
	return &other
}

// visitor is a browser without a screen.
type visitor struct {
	*edgetest.Visitor
	f *fixture
}

func (f *fixture) visitor(t testing.TB) visitor {
	t.Helper()
	return visitor{edgetest.Visit(t, f.server, "https://"+serviceHost), f}
}

// at makes a path an address of the service.
func at(path string) string { return "https://" + serviceHost + path }

// open begins a request and returns the path that its pages have in common.
func (v visitor) open(scopes scope.Set) string {
	v.T.Helper()
	location := v.Location(v.Get("/oauth/authorize?" + v.f.query(scopes).Encode()))
	base, found := strings.CutSuffix(location, "/sign-in")
	id, hasID := strings.CutPrefix(base, "/authorize/")
	if _, err := uuid.Parse(id); err != nil || !found || !hasID {
		v.T.Fatalf("location = %q, want /authorize/{uuid}/sign-in", location)
	}
	return base
}

// ask has a code sent and reads it in the email.
func (v visitor) ask(base, email string) string {
	v.T.Helper()
	if got := v.Location(v.Post(base+"/sign-in", "email", email)); got != base+"/code" {
		v.T.Fatalf("location = %q", got)
	}
	return v.f.post.Next(v.T).Code
}

// signIn goes from the first page to the consent.
func (v visitor) signIn(base string) {
	v.T.Helper()
	code := v.ask(base, email)
	if got := v.Location(v.Post(base+"/code", "code", code)); got != base+"/consent" {
		v.T.Fatalf("location = %q", got)
	}
}

// consent opens a request, signs in and shows the consent page.
func (v visitor) consent(scopes scope.Set) (base string, page edgetest.Page) {
	v.T.Helper()
	base = v.open(scopes)
	v.signIn(base)
	return base, v.Get(base + "/consent")
}

// isError fails the test unless a is the error page of this template's heading.
func (v visitor) isError(a edgetest.Page, status int, heading string) {
	v.T.Helper()
	if a.StatusCode != status || a.Find("h1").Text() != heading || a.Header.Get("Location") != "" {
		v.T.Errorf("status %d, heading %q, location %q; want %d, %q and none",
			a.StatusCode, a.Find("h1").Text(), a.Header.Get("Location"), status, heading)
	}
	if got := a.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		v.T.Errorf("content type = %q", got)
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
func (v visitor) secret() secret {
	v.T.Helper()
	request := &http.Request{Header: http.Header{}}
	for _, cookie := range v.cookies() {
		request.AddCookie(cookie)
	}
	s, ok := secretIn(request, browserCookie)
	if !ok {
		v.T.Fatal("the visitor has no secret")
	}
	return s
}

// asked is what the visitor keeps of a request.
func (v visitor) asked(base string) oauth.SealedRequest {
	v.T.Helper()
	return oauth.SealedRequest{ID: idOf(v.T, base), Sealed: v.Cookies(base)[askedCookie].Value}
}

// signedIn has the user sign in to a request without a code.
func (v visitor) signedIn(base string) {
	v.T.Helper()
	asked, browser := v.asked(base), v.secret().hash()
	session := oauth.Session{RequestID: asked.ID, UserID: v.f.User.ID, Browser: browser}
	if err := v.f.OAuth.SignIn(v.T.Context(), asked, browser, session.Hash(), session.UserID); err != nil {
		v.T.Fatal(err)
	}
	sealed, err := v.f.OAuth.SealSession(session)
	if err != nil {
		v.T.Fatal(err)
	}
	v.Give(base, &http.Cookie{Name: requestSessionCookie, Value: sealed, Path: base, Secure: true})
}

// stylesheet is the path under which it is served.
func (v visitor) stylesheet() string {
	path, _ := v.Get("/nothing").Find("link[rel=stylesheet]").Attr("href")
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
