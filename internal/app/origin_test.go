package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connect-svc/internal/testing/edgetest"
)

// A form of our own pages is accepted from an old browser, which has no Sec-Fetch-Site, whatever a proxy made of the Host.
func TestOldBrowserBehindAProxy(t *testing.T) {
	t.Parallel()
	a, _, _ := openWith(t, func(c *Config) {
		c.BaseURL = "https://connect.example.com:443"
		c.Operators = edgetest.Tokens(t)
		c.PrivateHosts = []string{"console.internal"}
		c.PartnerPortal = true
	})
	defer a.Close()
	const ours, consoles = "https://connect.example.com", "https://console.internal"
	for _, form := range []struct {
		handler      http.Handler
		origin, path string
	}{
		{a.Handler(), ours, "/account/language"},
		{a.Handler(), ours, "/partners/8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55/sign-out"},
		{a.PrivateHandler(), consoles, "/console/sign-out"},
	} {
		post := func(host, origin, fetchSite string) string {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, form.path, strings.NewReader("language=de"))
			request.Host = host
			request.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {origin}, "Sec-Fetch-Site": {fetchSite}}
			if fetchSite == "" {
				delete(request.Header, "Sec-Fetch-Site")
			}
			if !strings.Contains(form.path, "language") {
				request.Body, request.ContentLength = http.NoBody, 0
			}
			answer := httptest.NewRecorder()
			form.handler.ServeHTTP(answer, request)
			return answer.Result().Status + " " + answer.Result().Header.Get("Location") + answer.Body.String()
		}
		const refused = "403 Forbidden "
		want := post("127.0.0.1", form.origin, "same-origin") // a newer browser
		if want == post("127.0.0.1", form.origin, "cross-site") {
			t.Fatalf("%s is refused: %.200s", form.path, want)
		}
		for _, host := range []string{"127.0.0.1", "127.0.0.1:8443", "[::1]:8443", "localhost"} {
			if got := post(host, form.origin, ""); got != want {
				t.Errorf("%s to %s: %.200s, want %.200s", form.path, host, got, want)
			}
			for _, foreign := range []string{"https://evil.example", form.origin + ":8443", "null"} {
				if got := post(host, foreign, ""); got == want || !strings.HasPrefix(got, refused) {
					t.Errorf("%s to %s from %s: %.200s, want 403", form.path, host, foreign, got)
				}
			}
			if got := post(host, form.origin, "same-site"); got == want || !strings.HasPrefix(got, refused) {
				t.Errorf("%s to %s from the same site: %.200s, want 403", form.path, host, got)
			}
		}
	}
}
