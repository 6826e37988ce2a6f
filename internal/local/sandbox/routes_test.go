package sandbox

import (
	"net/http"
	"testing"

	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/generated"
)

// Whatever a partner's test asks the driver for, nothing of it is a fault.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	r := start(t)
	generated.Hostile(t, telemetry.Requests(r.config.Logger, r.sandbox.driver), []http.Handler{r.sandbox.driver},
		[]string{r.described.Client.ClientId.String()}, func(*http.Request) {})
}
