package sandbox

import (
	"net/http"
	"testing"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
)

// TestGetsChangeNothing: what a test reads of the sandbox stays as it is.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	r := start(t)
	edgetest.Walk{
		Handler: telemetry.Requests(r.config.Logger, r.sandbox.driver), Router: r.sandbox.driver, Pool: r.service.Pool,
		Values: map[string]string{
			"user_id": "00000000-0000-0000-0000-000000000000", "client_id": r.described.Client.ClientId.String(), "webhook_id": "x", "grant_id": "x",
		},
		Ask: func(*http.Request) {},
		Writes: map[string]string{ // by the time that passes: the sandbox runs
			"* servers": "heartbeats", "* sweeps": "sweeps", "* database_sizes": "once a day",
			"* latency_hours": "sums", "* usage_days": "sums", "* usage_folds": "sums", "* usage_hours": "of requests", "* usage_minutes": "of requests",
		},
	}.ChangesNothing(t)
}
