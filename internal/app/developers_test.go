package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connect-svc/internal/edge/developers"
)

// The developers' site is beside the API and the pages, and takes no path from them; without it, its paths are the 404 of
// every other.
func TestDevelopersSite(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, log := openWith(t, func(c *Config) {
				c.DevelopersSite, c.SDKModule, c.Programs = on, "connect.example.com/move", developers.OwnPrograms()
			})
			defer a.Close()
			get := func(path string) (status int, body string) {
				t.Helper()
				answer := httptest.NewRecorder()
				a.public.HTTP.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				text, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Fatal(err)
				}
				return answer.Code, string(text)
			}
			for _, path := range []string{"/developers/", "/developers/consent.html", "/developers/openapi.yaml", "/developers/sdk/connect-1.0.0.tgz",
				"/developers/sandbox/SHA256SUMS", "/developers/go/connect.example.com/move/@v/list", "/move?go-get=1", "/move/webhook?go-get=1"} {
				want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[on]
				if status, _ := get(path); status != want {
					t.Errorf("%s is %d, want %d", path, status, want)
				}
			}
			if on && !strings.Contains(log.String(), `"operation":"/developers/sandbox/"`) {
				t.Errorf("the log says %s", log)
			}
			if on && !strings.Contains(log.String(), `"operation":"/developers/"`) {
				t.Errorf("the log says %s", log)
			}
			for _, path := range []string{"/developer", "/developersx", "/Developers/", "/static/none.css", "//developers/", "/move", "/connect-go?go-get=1"} {
				if status, body := get(path); status != http.StatusNotFound || strings.Contains(body, "developers’ site") {
					t.Errorf("%s is %d, %s", path, status, body)
				}
			}
			if status, body := get("/connect-svc/v1/developers/"); status != http.StatusNotFound || !strings.Contains(body, `"invalid_request"`) {
				t.Errorf("an unknown path of the API is %d, %s", status, body)
			}
			if status, _ := get("/.well-known/oauth-authorization-server"); status != http.StatusOK {
				t.Errorf("discovery is %d", status)
			}
		})
	}
}
