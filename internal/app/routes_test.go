package app

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/testing/generated"
)

// Whatever is asked of either listener, at their own paths and at all others, nothing of it is a fault.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	paths := chi.NewRouter()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/{a}", "/{a}/{b}", "/oauth/{a}", "/connect-svc/v1/{a}/{b}", "/.well-known/{a}", "/static/{a}"} {
		paths.Get(path, http.NotFound)
	}
	for _, handler := range []http.Handler{a.Handler(), a.PrivateHandler()} {
		generated.Hostile(t, handler, []http.Handler{paths}, []string{"grants", "account"}, func(r *http.Request) { r.Host = "127.0.0.1" })
	}
}
