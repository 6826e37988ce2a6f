package listener

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

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
