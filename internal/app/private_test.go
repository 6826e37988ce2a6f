package app

import (
	"connect-svc/internal/testing/edgetest"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A request for /usage leads to the console, or to the answer that it needs a token.
func TestUsageMoved(t *testing.T) {
	t.Parallel()
	ask := func(a *App, path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		a.private.HTTP.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		return answer
	}
	with, _, _ := openWith(t, func(c *Config) { c.Operators = edgetest.Tokens(t) })
	defer with.Close()
	const id = "0f6f5b0e-6a0e-4b5e-9d3e-3a5d0c9b1a2f"
	for path, want := range map[string]string{
		"/usage": "/console/partners", "/usage?hours=168": "/console/partners?hours=168", "/usage?hours=24&client=": "/console/partners",
		"/usage?client=" + id:                "/console/partners/" + id + "/usage",
		"/usage?hours=168&client=" + id:      "/console/partners/" + id + "/usage?hours=168",
		"/usage?client=//elsewhere.example/": "/console/partners",
	} {
		if got := ask(with, path); got.Code != http.StatusSeeOther || got.Header().Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", path, got.Code, got.Header().Get("Location"), want)
		}
	}

	without, _, _ := openWith(t, func(*Config) {})
	defer without.Close()
	got := ask(without, "/usage")
	if body := got.Body.String(); got.Code != http.StatusNotFound || strings.Count(body, "\n") != 1 || !strings.Contains(body, "CONNECT_OPERATOR_TOKEN") {
		t.Errorf("without a token: %d %q", got.Code, body)
	}
}

// The log says who asked for what without a token, and nothing of other requests.
func TestUnauthorizedAreNamed(t *testing.T) {
	t.Parallel()
	a, _, log := openWith(t, func(c *Config) { c.Operators = edgetest.Operators(t) })
	defer a.Close()
	ask := func(path, token string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		r.RemoteAddr = "192.0.2.7:4711"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a.private.HTTP.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	const id = "/operator/v1/users/0f6f5b0e-6a0e-4b5e-9d3e-3a5d0c9b1a2f"
	ask(id, edgetest.AdaToken)
	if strings.Contains(log.String(), "192.0.2.7") || strings.Contains(log.String(), `"path"`) {
		t.Errorf("a request with a token is named:\n%s", log)
	}
	ask(id, "")
	if want := `"operation":"readUser"`; !strings.Contains(log.String(), want) || !strings.Contains(log.String(), `"address":"192.0.2.7","path":"`+id+`"`) {
		t.Errorf("a request without a token:\n%s", log)
	}
	ask("/operator/v1/"+strings.Repeat("a", 1000)+"%0a", "")
	if text := log.String(); strings.Contains(text, strings.Repeat("a", 200)) || !strings.Contains(text, `"path":"/operator/v1/aaa`) {
		t.Errorf("a long path:\n%s", text)
	}
}
