package network_test

import (
	"testing"

	"connect-svc/internal/foundation/network"
)

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1":             true,
		"127.255.3.4":           true,
		"::1":                   true,
		"::ffff:127.0.0.1":      true,
		"localhost":             true,
		"LocalHost":             true,
		"":                      false,
		"0.0.0.0":               false,
		"::":                    false,
		"10.0.0.1":              false,
		"169.254.0.1":           false,
		"192.168.1.1":           false,
		"fe80::1%lo":            false,
		"128.0.0.1":             false,
		"127.0.0.1.example.com": false,
		"localhost.example.com": false,
		"localhost ":            false,
		"127.1":                 false, // some resolvers take it for 127.0.0.1
		"2130706433":            false, // and this
		"0177.0.0.1":            false,
		"/run/postgresql":       false,
		"db":                    false,
		"db.internal":           false,
	} {
		if got := network.IsLoopback(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}
