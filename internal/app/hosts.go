package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"connect-svc/internal/telemetry"
)

// OnlyHosts answers requests for an IP address, for localhost and for the names, on any port, and 421 (Misdirected Request,
// RFC 9110, section 15.5.20) to all others. A page in a browser could otherwise read a listener that only the browser's
// machine reaches: its own name is made to lead to that listener's address (DNS rebinding), and what the page reads
// there counts as its own. Such a request has the page's name for its host. The names are in lower case.
func OnlyHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHost(r.Host, names) {
			telemetry.EventOf(r.Context()).Code = "misdirected_request"
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "This host is not served here.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isHost(host string, names []string) bool {
	if host == "" { // HTTP/1.0, as probes of load balancers speak it and browsers never do
		return true
	}
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	name = strings.ToLower(strings.Trim(name, "[]")) // an IPv6 address without a port
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || slices.Contains(names, name)
}
