package app

import (
	"connect-svc/internal/testing/edgetest"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
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
		a.private.Handler.ServeHTTP(answer, request)
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

// FuzzHost: the hosts that are served are what no page's own name can be, whatever is put around them.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{"", "localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:9090", "::1", "connect.internal:1", "evil.example", "127.0.0.1.evil.example",
		"[evil.example]", "localhost.", "connect.internal@evil.example", "evil.example:80:80", "[::1%25eth0]", "\x00localhost"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if host == "" || !isHost(host, []string{"connect.internal"}) {
			return
		}
		asked, err := url.Parse("http://" + host + "/") // as a browser reads it
		if err != nil {
			return // and so never asks for it
		}
		name := strings.TrimSuffix(strings.ToLower(asked.Hostname()), ".")
		if _, err := netip.ParseAddr(name); err != nil && name != "localhost" && name != "connect.internal" {
			t.Errorf("%q is served, which is %q", host, name)
		}
	})
}
