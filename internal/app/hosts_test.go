package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connect-svc/internal/testing/edgetest"
)

// The private listener answers to the hosts by which an operator reaches it, and to no name that a page in the operator's
// browser could have.
func TestPrivateHosts(t *testing.T) {
	t.Parallel()
	a, _, log := openWith(t, func(c *Config) {
		c.Operators = edgetest.Tokens(t)
		c.PrivateHosts = []string{"connect.internal", "metrics"}
	})
	defer a.Close()
	ask := func(path, host string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		request.Host = host
		request.Header.Set("Authorization", "Bearer "+edgetest.UnnamedToken)
		answer := httptest.NewRecorder()
		a.private.HTTP.Handler.ServeHTTP(answer, request)
		return answer
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/usage", "/console", "/console/users", "/operator/v1/users/me", "/nothing", "//"} {
		for _, host := range []string{
			"127.0.0.1", "127.0.0.1:9090", "[::1]", "[::1]:9090", "10.1.2.3:1", "localhost", "localhost:9090", "LocalHost",
			"connect.internal", "Connect.Internal:9090", "metrics:80", "", "connect.internal.", "CONNECT.internal.:9090", "localhost.",
		} {
			if got := ask(path, host); got.Code == http.StatusMisdirectedRequest {
				t.Errorf("%s of %q: %d", path, host, got.Code)
			}
		}
		for _, host := range []string{
			"rebound.example", "rebound.example:9090", "127.0.0.1.rebound.example", "localhost.rebound.example", "x.localhost", "xlocalhost",
			"x.connect.internal", "connect.internal..", ".connect.internal", "rebound.example.", "connect", ".", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1:x:y", ":9090", "[]",
		} {
			got := ask(path, host)
			if got.Code != http.StatusMisdirectedRequest || got.Body.String() != "This host is not served here.\n" {
				t.Errorf("%s of %q: %d %s", path, host, got.Code, got.Body)
			}
		}
	}
	if strings.Contains(log.String(), "rebound") || !strings.Contains(log.String(), `"code":"misdirected_request"`) {
		t.Error("the log does not say that requests were misdirected, or repeats a host")
	}
}
