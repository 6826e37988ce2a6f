package app

import (
	"net/http"

	"connect-svc/internal/telemetry"
)

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
