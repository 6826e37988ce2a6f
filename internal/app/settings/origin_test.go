package settings

import "testing"

// The base URL is written as browsers write an origin, so that one text is the issuer, and what browsers send.
func TestOrigin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://connect.example":              "",
		"https://connect.example:8443":         "",
		"https://connect.example:443":          "", // equal in browsers' eyes: see site.OriginOf
		"https://xn--bcher-kva.example":        "",
		"https://127.0.0.1:8443":               "",
		"https://[::1]":                        "",
		"https://[2001:db8::1]:8443":           "",
		"http://connect.example":               "is not an https origin",
		"https://":                             "is not an https origin",
		"https://connect.example/":             "is not an https origin",
		"https://connect.example/a":            "is not an https origin",
		"https://connect.example?":             "is not an https origin",
		"https://connect.example#":             "is not an https origin",
		"https://Connect.Example":              "is not an https origin",
		"HTTPS://connect.example":              "is not an https origin",
		"https://user@connect.example":         "is not an https origin",
		"https://user:password@connect.exampl": "is not an https origin",
		" https://connect.example":             "is not an https origin",
		"https://connect.example.":             "ends with a dot, which browsers take for another origin",
		"https://connect.example.:8443":        "ends with a dot, which browsers take for another origin",
		"https://bücher.example":               "names a host that is not ASCII: write its A-labels, such as xn--bcher-kva.example",
		"https://connect..example":             "names a host that cannot be",
		"https://-connect.example":             "names a host that cannot be",
		"https://127.1":                        "names a host that cannot be",
		"https://[2001:DB8::1]":                "is not an https origin",
		"https://[2001:db8:0::1]":              "does not have the address as browsers write it",
		"https://[::ffff:192.0.2.1]":           "does not have the address as browsers write it",
		"https://connect.example:":             "has no valid port",
		"https://connect.example:0":            "has no valid port",
		"https://connect.example:65536":        "has no valid port",
		"https://connect.example:0443":         "has a port that begins with 0",
	} {
		got := ""
		if _, err := parseOrigin(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
