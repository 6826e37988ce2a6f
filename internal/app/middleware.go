package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"connect-svc/internal/edge/operator"
	"connect-svc/internal/edge/partner"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/telemetry"
)

// OnlyHosts passes on requests for an IP address, localhost or one of the names, on any port. It answers all others with 421
// (Misdirected Request, RFC 9110, section 15.5.20). Otherwise a page in a browser could read a listener that only the browser's
// machine can reach, by resolving the page's own name to the listener's address (DNS rebinding): the browser takes the listener for
// the page's own server. The host of such a request is the name of the page. The names are in lower case.
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
	if host == "" { // HTTP/1.0, which some load balancers use for probes and no browser uses
		return true
	}
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	// An IPv6 address without a port has brackets. A name that is complete may end with a dot (RFC 3986, section 3.2.2).
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || slices.Contains(names, name)
}

// byTLSAlone makes browsers that came by TLS use nothing else from then on.
func byTLSAlone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=63072000")
		}
		next.ServeHTTP(w, r)
	})
}

// oneOfChunks closes a connection of HTTP/1 after a chunked request. The request may have had a length, too, which net/http removes. A
// proxy that goes by the length takes bytes for the body that the service would take for the next request (RFC 9112, section 6.1).
// In HTTP/1.0, net/http silently ignores the chunks instead, so that each connection is closed.
func oneOfChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// fromNetworks adds the network of the caller to the event of each request.
func fromNetworks(proxies network.Proxies, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Network = proxies.Of(r)
		next.ServeHTTP(w, r)
	})
}

// namingCallers has the log say who asked for what without a token of an operator.
func namingCallers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if event := telemetry.EventOf(r.Context()); event.Code == operator.Unauthorized {
			const most = 200 // bytes of a path
			path := r.URL.EscapedPath()
			event.Address, event.Path = network.Proxies(nil).Address(r).String(), path[:min(len(path), most)]
		}
	})
}

type noRoomKey struct{}

// roomy refuses requests that got no place (see [connections]). The handlers do not see them.
func roomy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(noRoomKey{}) == nil {
			next.ServeHTTP(w, r)
			return
		}
		if partner.IsBackend(r.URL.Path) {
			partner.FailBusy(w, r)
			return
		}
		telemetry.EventOf(r.Context()).Code = "busy"
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The service is busy. Please try again.", http.StatusServiceUnavailable)
	})
}

// closing closes the connection with each answer while the service stops: with "Connection: close" in HTTP/1, and in HTTP/2 with
// GOAWAY, after which open streams still end.
func (a *App) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() {
			w.Header().Set("Connection", "close") // net/http makes a GOAWAY of it
		}
		next.ServeHTTP(w, r)
	})
}

// waking wakes the delivery of webhooks after each request that may have written an event: one that changes something, other than the
// exchanges and refreshes of tokens, of which only a replay writes one. So the event leaves at once, although an idle server polls
// rarely. Events of other processes are found by polling.
func waking(wake func(), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return
		}
		if r.URL.Path == "/oauth/token" && telemetry.EventOf(r.Context()).Refresh != telemetry.RefreshReplayed {
			return
		}
		wake()
	})
}
