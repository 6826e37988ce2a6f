package sandbox

import (
	"net/http"
	"testing"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/generated"
)

// No request of a partner's test to the driver causes a fault.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	r := start(t)
	generated.Hostile(t, telemetry.Requests(r.config.Logger, r.sandbox.driver), []http.Handler{r.sandbox.driver},
		[]string{r.described.Client.ClientId.String()}, func(*http.Request) {})
}
