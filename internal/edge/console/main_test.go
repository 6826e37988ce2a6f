package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/operators"
	userpages "connect-svc/internal/edge/pages"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// start is when the time of a fixture begins.
var start = time.Date(2026, 3, 10, 12, 34, 0, 0, time.UTC)

// pathOf returns the path of a partner's pages in the console.
func pathOf(id uuid.UUID) string { return partnersPath + "/" + id.String() }

// fixture is the console with everything behind it.
type fixture struct {
	edgetest.Backend
	config Config
	server *httptest.Server
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{Backend: edgetest.New(t, start)}
	f.config = Config{
		Operators: edgetest.Operators(t),
		Sessions:  operators.NewSessions(f.DB.Pool),
		Domains:   f.Domains,
		PortalOn:  true,
		BaseURL:   "https://connect.example.com",
		CodesPage: "https://connect.example.com/developers/error-codes.html",
		Facts:     func(context.Context) Facts { return quietService() },
		Alerts:    func(context.Context) Facts { return quietService() },
		Now:       f.DB.Now,
		Limits:    wait.Patient,
	}
	var err error
	if f.config.Consent, err = userpages.NewConsentPreview(PreviewFiles, brand.Brand{}, nil, f.DB.Now); err != nil {
		t.Fatal(err)
	}
	f.serve(t)
	return f
}

// serve serves what is configured now.
func (f *fixture) serve(t testing.TB) {
	t.Helper()
	f.server = httptest.NewServer(telemetry.Requests(telemetry.NewLogger(f.Log, slog.LevelDebug), f.handler(t)))
	t.Cleanup(f.server.Close)
}

func (f *fixture) handler(t testing.TB) http.Handler {
	t.Helper()
	handler, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// visitor is a browser without scripts.
type visitor struct{ *edgetest.Visitor }

func (f *fixture) visitor(t testing.TB) visitor {
	t.Helper()
	v := edgetest.Visit(t, f.server, f.server.URL)
	v.Look = func(p edgetest.Page) {
		t.Helper()
		path := p.Request.URL.Path
		for name, want := range map[string]string{"Content-Security-Policy": site.Policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
			if got := p.Header.Get(name); got != want {
				t.Errorf("%s %s: %s: %q", p.Request.Method, path, name, got)
			}
		}
		if cached := p.Header.Get("Cache-Control"); cached != "no-store" && !strings.HasPrefix(path, Path+"/static/") {
			t.Errorf("%s %s may be cached: %s", p.Request.Method, path, cached)
		}
	}
	return visitor{v}
}

// signedIn is a browser in which the holder of a token has signed in.
func (f *fixture) signedIn(t testing.TB, token string) visitor {
	t.Helper()
	v := f.visitor(t)
	v.goes(v.Post(Path+"/sign-in", "token", token), Path)
	return v
}

// goes holds a response to be a redirect to a path, and opens it.
func (v *visitor) goes(p edgetest.Page, path string) {
	v.T.Helper()
	if got := p.Header.Get("Location"); p.StatusCode != http.StatusSeeOther || got != path {
		v.T.Fatalf("%s: status %d to %q, want %q", p.Request.URL.Path, p.StatusCode, got, path)
	}
}

// shows holds a response to be a page with a heading, and with texts.
func (v *visitor) shows(p edgetest.Page, heading string, texts ...string) {
	v.T.Helper()
	if got := strings.TrimSpace(p.Find("h1").Text()); got != heading {
		v.T.Fatalf("%s: status %d, heading %q, want %q", p.Request.URL.Path, p.StatusCode, got, heading)
	}
	all := strings.Join(strings.Fields(p.Find("body").Text()), " ")
	for _, want := range texts {
		if !strings.Contains(all, want) {
			v.T.Errorf("%s does not say %q", p.Request.URL.Path, want)
		}
	}
}

// fails holds a response to be an error's page.
func (v *visitor) fails(p edgetest.Page, status int, heading string) {
	v.T.Helper()
	if p.StatusCode != status {
		v.T.Errorf("%s %s: status %d, want %d", p.Request.Method, p.Request.URL.Path, p.StatusCode, status)
	}
	v.shows(p, heading)
}
