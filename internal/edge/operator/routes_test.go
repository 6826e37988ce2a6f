package operator

import (
	"log/slog"
	"net/http"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/generated"
)

// No request of the operator's backend causes a fault.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	f.Connect(t, partner, scope.All)
	routes, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	handler := telemetry.Requests(telemetry.NewLogger(f.Log, slog.LevelDebug), routes)
	generated.Hostile(t, handler, []http.Handler{routes}, []string{partner.ID.String(), f.User.ID.String(), f.User.Email},
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
}
