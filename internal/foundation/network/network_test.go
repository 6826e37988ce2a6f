package network_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"connect-svc/internal/foundation/network"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	p := network.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("fe80::/10")}
	for _, test := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "192.0.2.1:1234", nil, "192.0.2.1"},
		{"not trusted", "192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1"},
		{"one proxy", "10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"what the visitor wrote is ignored", "10.0.0.1:1234", []string{"203.0.113.5, 198.51.100.1"}, "198.51.100.1"},
		{"two proxies", "10.0.0.1:1234", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"two headers", "10.0.0.1:1234", []string{"198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		{"only proxies", "10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"trusted proxy without a header", "10.0.0.1:1234", nil, "10.0.0.1"},
		{"nonsense at the end", "10.0.0.1:1234", []string{"198.51.100.1, unknown"}, "10.0.0.1"},
		{"nonsense before a proxy", "10.0.0.1:1234", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"IPv6", "[2001:db8:1::7]:1234", []string{"2001:db8:2::1"}, "2001:db8:2::1"},
		{"proxy on the same link", "[fe80::7%eth0]:1234", []string{"2001:db8:2::1"}, "2001:db8:2::1"},
		{"mapped peer", "[::ffff:10.0.0.1]:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"mapped hop", "10.0.0.1:1234", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"with port", "10.0.0.1:1234", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv6 with port", "10.0.0.1:1234", []string{"[2001:db8:2::1]:4711"}, "2001:db8:2::1"},
		{"IPv6 in brackets", "10.0.0.1:1234", []string{"[2001:db8:2::1]"}, "2001:db8:2::1"},
		{"zone", "10.0.0.1:1234", []string{"fe80::1%eth0"}, "fe80::1"},
		{"IPv6 in capitals", "10.0.0.1:1234", []string{"2001:DB8:2::1"}, "2001:db8:2::1"},
		{"IPv6 of a proxy, with port", "10.0.0.1:1234", []string{"198.51.100.1, [2001:db8:1::7]:4711"}, "198.51.100.1"},
		{"mapped, in brackets with port", "10.0.0.1:1234", []string{"[::ffff:198.51.100.1]:4711"}, "198.51.100.1"},
		{"no spaces", "10.0.0.1:1234", []string{"203.0.113.5,198.51.100.1,10.0.0.2"}, "198.51.100.1"},
		{"tabs and spaces", "10.0.0.1:1234", []string{" 203.0.113.5 ,\t198.51.100.1\t,  10.0.0.2 "}, "198.51.100.1"},
		{"three lines", "10.0.0.1:1234", []string{"203.0.113.5", "198.51.100.1, 10.0.0.3", "10.0.0.2"}, "198.51.100.1"},
		{"empty elements", "10.0.0.1:1234", []string{"203.0.113.5, 198.51.100.1, , 10.0.0.2,, "}, "198.51.100.1"},
		{"an empty line of the visitor", "10.0.0.1:1234", []string{"", "198.51.100.1"}, "198.51.100.1"},
		{"an empty line of a proxy", "10.0.0.1:1234", []string{"198.51.100.1", ""}, "198.51.100.1"},
		{"nothing but commas", "10.0.0.1:1234", []string{",, ,"}, "10.0.0.1"},
		{"a hidden name (RFC 7239)", "10.0.0.1:1234", []string{"198.51.100.1, _hidden"}, "10.0.0.1"},
		{"a socket of nginx", "10.0.0.1:1234", []string{"198.51.100.1, unix:"}, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.RemoteAddr = test.peer
			r.Header["X-Forwarded-For"] = test.forwarded
			if got := p.Address(r).String(); got != test.want {
				t.Errorf("network = %s, want %s", got, test.want)
			}
		})
	}
}

// FuzzAddress checks any header: the address of an untrusted peer is its own, and behind a trusted peer only the last untrusted hop
// determines the address, which has no zone.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "198.51.100.1", "a, b", "[::1]:80", "10.0.0.1,,", "::ffff:1.2.3.4%x", "\x00"} {
		f.Add(seed)
	}
	p := network.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, forwarded string) {
		address := func(peer, forwarded string) netip.Addr {
			return p.Address(&http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {forwarded}}})
		}
		if got := address("192.0.2.1:1", forwarded); got.String() != "192.0.2.1" {
			t.Errorf("untrusted peer: %s", got)
		}
		if got := address("10.0.0.1:1", forwarded); !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("trusted peer: %s", got)
		}
		if got := address("10.0.0.1:1", forwarded+", 192.0.2.7, 10.0.0.2"); got.String() != "192.0.2.7" {
			t.Errorf("behind two proxies: %s", got)
		}
	})
}

// All addresses of an IPv6 network are one caller.
func TestOf(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{
		"192.0.2.1:1":              "192.0.2.1/32",
		"[::ffff:192.0.2.1]:1":     "192.0.2.1/32",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1::/48",
		"[fe80::1%eth0]:1":         "fe80::/48",
		"@":                        "invalid Prefix", // a socket without addresses
	} {
		if got := network.Proxies(nil).Of(&http.Request{RemoteAddr: peer}).String(); got != want {
			t.Errorf("%s is of %s, want %s", peer, got, want)
		}
	}
}
