package app

import (
	"net/http"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/edge/operator"
	"connect-svc/internal/edge/partner"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/telemetry"
)

// byTLSAlone makes browsers that came by TLS use nothing else from then on.
func byTLSAlone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=63072000")
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

// roomy refuses requests that got no place. The handlers do not see them.
func roomy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !listener.GotNoPlace(r) {
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
