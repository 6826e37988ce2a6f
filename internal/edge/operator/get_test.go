package operator

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
)

// TestGetsChangeNothing: an operation of GET reads.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	f.DB.Webhook(t, partner.ID)
	f.Connect(t, partner, scope.All)
	event := uuid.New()
	f.DB.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		select user_id, $1, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', connect_now(), 'failed', 1, true from connections`, event)
	if _, err := f.Clients.RequestChange(t.Context(), partner.ID, func(r *client.Registration) { r.HomepageURL = "https://ride.example/" }); err != nil {
		t.Fatal(err)
	}
	router, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	edgetest.Walk{
		Handler: telemetry.Requests(telemetry.NewLogger(f.Log, slog.LevelDebug), router), Router: router, Pool: f.DB.Pool,
		Values: map[string]string{
			"user_id": f.User.ID.String(), "client_id": partner.ID.String(), "webhook_id": "msg_" + strings.ReplaceAll(event.String(), "-", ""), "session_id": uuid.NewString(),
			"dataset": "daily_steps", "adjustment_id": uuid.NewString(),
		},
		Queries: map[string]string{
			"/operator/v1/users/{user_id}/activity": "from=2026-03-10&to=2026-03-10", "/operator/v1/sign-ins": "email=a@b.example",
			"/operator/v1/find": "text=x", "/operator/v1/connections": "user_id=" + f.User.ID.String(), "/operator/v1/users": "email=" + f.User.Email,
		},
		Ask: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
		Writes: map[string]string{
			"/operator/v1/users/{user_id}/activity audit_log": "the log says who looked at a user's activity",
			"/operator/v1/audit-log audit_log":                "and who took a copy of it",
			"/operator/v1/users/{user_id}/sign-ins audit_log": "and who looked at the log of a user's sign-ins",
			"/operator/v1/sign-ins audit_log":                 "or at that of an address",
			"/operator/v1/users/{user_id}/export audit_log":   "or took a copy of all of it",
		},
	}.ChangesNothing(t)
}
