package site_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"connect-svc/internal/edge/site"
)

// Newer browsers are believed, and older ones are held to the origins and to the Host. A Host that a proxy has made does not decide
// against the origin.
func TestOwnForms(t *testing.T) {
	t.Parallel()
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	own, err := site.OwnForms(refuse, "", site.OriginOf("https://connect.example:443"), site.OriginOf("https://[::1]:8443"))
	if err != nil {
		t.Fatal(err)
	}
	handler := own(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	const ours = "https://connect.example"
	for _, test := range []struct {
		method, host, origin, fetchSite string
		want                            int
	}{
		{"POST", "connect.example", ours, "", 200},
		{"POST", "10.0.0.11:8443", ours, "", 200},
		{"POST", "connect", ours, "", 200},
		{"POST", "CONNECT.EXAMPLE", ours, "", 200},
		{"POST", "connect.example:443", ours, "", 200},
		{"POST", "connect.example.", ours, "", 200},
		{"POST", "", ours, "", 200},
		{"POST", "10.0.0.11:8443", "https://[::1]:8443", "", 200},
		{"POST", "other.example:8443", "https://other.example:8443", "", 200},
		{"POST", "connect.example", "", "", 200}, // no browser
		{"POST", "10.0.0.11:8443", ours, "same-origin", 200},
		{"POST", "10.0.0.11:8443", "", "same-origin", 200},

		{"POST", "10.0.0.11:8443", "https://evil.example", "", 403},
		{"POST", "10.0.0.11:8443", ours + ".evil.example", "", 403},
		{"POST", "10.0.0.11:8443", ours + ":8443", "", 403},
		{"POST", "10.0.0.11:8443", "http://connect.example", "", 403},
		{"POST", "10.0.0.11:8443", "https://evil.example, " + ours, "", 403},
		{"POST", "10.0.0.11:8443", "null", "", 403},
		{"POST", "connect.example", ours, "cross-site", 403}, // a browser that knows better
		{"POST", "connect.example", ours, "same-site", 403},
		{"POST", "connect.example", ours, "SAME-ORIGIN", 403},

		{"GET", "10.0.0.11:8443", "https://evil.example", "cross-site", 200},
		{"HEAD", "10.0.0.11:8443", "https://evil.example", "", 200},
	} {
		request := httptest.NewRequestWithContext(t.Context(), test.method, "/", nil)
		request.Host = test.host
		for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.fetchSite} {
			if value != "" {
				request.Header.Set(name, value)
			}
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != test.want {
			t.Errorf("%+v: %d", test, answer.Code)
		}
	}
	if _, err := site.OwnForms(refuse, "connect.example"); err == nil {
		t.Error("an origin without a scheme is accepted")
	}
}
