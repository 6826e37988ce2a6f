package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Search engines find the developers' site alone, and nothing where it is off (RFC 9309). Somebody who finds a weakness learns where to
// report it, if the operator says so, until a time that lies ahead (RFC 9116).
func TestRobotsAndSecurity(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, _ := openWith(t, func(c *Config) {
				if c.DevelopersSite = on; on {
					c.SecurityContact = "mailto:security@acme.example"
				}
			})
			defer a.Close()
			get := func(path string) (status int, lines []string) {
				answer := httptest.NewRecorder()
				a.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				if kind := answer.Header().Get("Content-Type"); answer.Code == http.StatusOK && kind != "text/plain; charset=utf-8" {
					t.Errorf("%s is %s", path, kind)
				}
				return answer.Code, strings.Split(answer.Body.String(), "\n")
			}
			want := "User-agent: *\nDisallow: /\n"
			if on {
				want += "Allow: /developers/\nDisallow: /developers/sandbox/\n"
			}
			if status, lines := get("/robots.txt"); status != http.StatusOK || strings.Join(lines, "\n") != want {
				t.Errorf("robots.txt is %d, %q", status, lines)
			}
			status, lines := get("/.well-known/security.txt")
			if !on {
				if status != http.StatusNotFound {
					t.Errorf("without a contact, security.txt is %d", status)
				}
				return
			}
			if status != http.StatusOK || len(lines) != 4 || lines[0] != "Contact: mailto:security@acme.example" || !strings.HasPrefix(lines[2], "Canonical: https://") {
				t.Fatalf("security.txt is %d, %q", status, lines)
			}
			text, _ := strings.CutPrefix(lines[1], "Expires: ")
			expires, err := time.Parse(time.RFC3339, text)
			if left := expires.Sub(a.Pool.Clock().Now()); err != nil || left < 170*24*time.Hour || left > 181*24*time.Hour {
				t.Errorf("it expires %q: %v", lines[1], err)
			}
		})
	}
}
