package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"connect-svc/internal/foundation/telemetry"
)

// Requests that may have written an event wake the delivery of webhooks. Reads, and the exchanges of tokens, do not.
func TestWaking(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, path string
		refresh      telemetry.RefreshOutcome
		want         int
	}{
		{http.MethodGet, "/account", "", 0},
		{http.MethodPost, "/account/companies", "", 1},
		{http.MethodDelete, "/connect-svc/v1/customer/grants/1", "", 1},
		{http.MethodPost, "/oauth/revoke", "", 1},
		{http.MethodPost, "/oauth/token", "", 0},
		{http.MethodPost, "/oauth/token", telemetry.RefreshRotated, 0},
		{http.MethodPost, "/oauth/token", telemetry.RefreshReplayed, 1},
	} {
		woken := 0
		handler := telemetry.Requests(telemetry.NewLogger(t.Output(), nil), waking(func() { woken++ }, http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { telemetry.EventOf(r.Context()).Refresh = test.refresh })))
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil))
		if woken != test.want {
			t.Errorf("%+v: woken %d times", test, woken)
		}
	}
}
