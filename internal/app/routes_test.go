package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/generated"
)

// No request to either listener causes a fault, at their own paths and at all others.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	elsewhere := chi.NewRouter()
	for _, path := range []string{"/{a}", "/{a}/{b}", "/oauth/{a}", "/connect-svc/v1/{a}/{b}", "/.well-known/{a}", "/static/{a}"} {
		elsewhere.Get(path, http.NotFound)
	}
	for _, handler := range []http.Handler{a.Handler(), a.PrivateHandler()} {
		generated.Hostile(t, handler, []http.Handler{elsewhere, a.tools()}, []string{"grants", "account"}, func(r *http.Request) { r.Host = "127.0.0.1" })
	}
}

// TestGetsChangeNothing: probes and metrics write nothing.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	a, _, _ := openWith(t, func(c *Config) { c.Operators = edgetest.Tokens(t) })
	defer a.Close()
	edgetest.Walk{
		Handler: a.PrivateHandler(), Router: a.tools(), Pool: a.Pool, Ask: func(*http.Request) {},
	}.ChangesNothing(t)
}

// TestAccountCopyIsASetting: whoever is not signed in is sent to the sign-in if there is a copy to be had.
func TestAccountCopyIsASetting(t *testing.T) {
	t.Parallel()
	for on, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusSeeOther} {
		a, _, _ := openWith(t, func(c *Config) { c.AccountCopy = on })
		defer a.Close()
		answer := httptest.NewRecorder()
		a.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/account/copy", nil))
		if answer.Code != want {
			t.Errorf("%t: status %d, want %d", on, answer.Code, want)
		}
	}
}

// HEAD is GET without its content, everywhere (RFC 9110, section 9.3.2).
func TestHead(t *testing.T) {
	t.Parallel()
	a, _, log := openWith(t, func(c *Config) {
		c.DevelopersSite, c.PartnerPortal, c.Operators, c.Clock, c.SecurityContact = true, true, edgetest.Tokens(t), nil, "mailto:security@acme.example"
	})
	defer a.Close()
	for _, listener := range []struct {
		handler http.Handler
		paths   []string
	}{
		{a.Handler(), []string{
			"/.well-known/oauth-authorization-server", "/connect-svc/v1/grants/x/daily-activity?from=a", "/connect-svc/v1/grants/", "/oauth/token",
			"/oauth/authorize", "/oauth/authorize?client_id=x", "/", "/account", "/account/sign-in", "/account/code", "/authorize/x/consent",
			"/account/receipt/x", "/robots.txt", "/.well-known/security.txt", "/nothing", "/static/nothing", "/static/partners/x/y", "/partners", "/partners?signed-out", "/partners/x/open/y",
			"/developers", "/developers/", "/developers/reads.html", "/developers/nothing", "/connect-go?go-get=1", "//",
		}},
		{a.PrivateHandler(), []string{
			"/healthz", "/readyz", "/readyz?verbose", "/metrics", "/usage", "/nothing", "/console", "/console/sign-in", "/console/users", "/operator/v1/report", "/operator/v1/nothing",
		}},
		{a.probes(brief), []string{"/healthz", "/readyz", "/metrics"}}, // the listener for load balancers
	} {
		server := httptest.NewServer(listener.handler)
		t.Cleanup(server.Close)
		ask := func(method, path string) *http.Response {
			request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header = http.Header{"Authorization": {"Bearer " + edgetest.UnnamedToken}, "Accept-Encoding": {"gzip"}}
			answer, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			body, err := io.ReadAll(answer.Body)
			if err != nil || method == http.MethodHead && len(body) > 0 {
				t.Errorf("%s %s: %d bytes, %v", method, path, len(body), err)
			}
			for _, name := range []string{"Date", "X-Request-Id", "Set-Cookie"} { // different each time
				if answer.Header.Get(name) != "" {
					answer.Header.Set(name, "is there")
				}
			}
			if path == "/metrics" {
				answer.Header.Del("Content-Length") // it counts the requests
			}
			return answer
		}
		for _, path := range listener.paths {
			get, head := ask(http.MethodGet, path), ask(http.MethodHead, path)
			if get.StatusCode != head.StatusCode {
				t.Errorf("%s: %d, and of HEAD %d", path, get.StatusCode, head.StatusCode)
			}
			if diff := cmp.Diff(get.Header, head.Header); diff != "" {
				t.Errorf("%s: headers (-GET +HEAD):\n%s", path, diff)
			}
		}
	}
	if n := strings.Count(log.String(), `"method":"HEAD"`); n == 0 {
		t.Error("the log does not say HEAD")
	}
}
