package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

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

// Probes and tools also ask with HEAD.
func TestHead(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/usage": 404, "/nothing": 404, "//": 404} {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, "http://127.0.0.1"+path, nil)
		a.PrivateHandler().ServeHTTP(answer, request)
		if answer.Code != want {
			t.Errorf("HEAD %s: %d", path, answer.Code)
		}
	}
}
