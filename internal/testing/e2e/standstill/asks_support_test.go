//go:build timed

package standstill_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// operatorAsk is a request of the operator API.
func (w *whole) operatorAsk(operation, method, path, body string, limit time.Duration, well int) ask {
	header := http.Header{"Authorization": {"Bearer " + edgetest.UnnamedToken}}
	if body != "" {
		header.Set("Content-Type", "application/json")
	}
	return ask{operation, contracttest.Operator.Transport, &http.Client{Transport: w.plain}, method, w.private + path, header, body, limit, well, 500}
}

// supportAsks are those for support, with clients of their own.
func (w *whole) supportAsks(t *testing.T) []ask {
	t.Helper()
	told := func() (id, event string) {
		client, user := w.DB.Client(t).ID, w.DB.User(t).ID
		if _, err := w.service.Webhooks.SetEndpoint(t.Context(), client, "https://partner.invalid/webhooks"); err != nil {
			t.Fatal(err)
		}
		eventID := pgtest.Value[uuid.UUID](t, w.DB, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version,
			reason, state, queued) values ($1, $2, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', 'delivered', true)
			returning event_id`, user, client)
		return client.String(), "/operator/v1/webhook-events/msg_" + strings.ReplaceAll(eventID.String(), "-", "")
	}
	walker := w.DB.User(t).ID
	user := "/operator/v1/users/" + walker.String()
	correction, err := w.App.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: walker, Date: time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), Delta: 1})
	if err != nil {
		t.Fatal(err)
	}
	const clients = "/operator/v1/clients"
	plain, ending := clients+"/"+w.DB.Client(t).ID.String(), clients+"/"+w.DB.Client(t).ID.String()
	hooked, event := told()
	leaving, _ := told()
	hook, removed := clients+"/"+hooked+"/webhook", clients+"/"+leaving+"/webhook"
	hooking, leave := clients+"/"+hooked, clients+"/"+leaving
	asked := func(clientID string) string {
		id := uuid.MustParse(clientID)
		if _, err := w.service.Clients.RequestChange(t.Context(), id, func(r *client.Registration) { r.Policy.Burst++ }); err != nil {
			t.Fatal(err)
		}
		return pgtest.Value[uuid.UUID](t, w.DB, "select request_id from change_requests where client_id = $1", id).String()
	}
	get := func(operation, path string) ask {
		return w.operatorAsk(operation, http.MethodGet, path, "", actLimit, 200)
	}
	act := func(operation, method, path, body string) ask {
		return w.operatorAsk(operation, method, path, body, actLimit, 200)
	}
	return []ask{
		get("listClients", clients),
		w.operatorAsk("createClient", http.MethodPost, clients,
			`{"name":"Walk","callback_url":"https://walk.example/cb","scopes":["daily_steps:read"]}`, actLimit, 201),
		get("readClient", plain),
		act("changeClient", http.MethodPatch, plain, `{"burst":7}`),
		act("rotateClientSecret", http.MethodPost, plain+"/secret", `{"overlap_seconds":60}`),
		act("disableClient", http.MethodPost, plain+"/disable", ""),
		act("enableClient", http.MethodPost, plain+"/enable", ""),
		act("suspendClient", http.MethodPost, plain+"/suspend", ""),
		act("resumeClient", http.MethodPost, plain+"/resume", ""),
		w.operatorAsk("revokeClientTokens", http.MethodPost, plain+"/revoke-tokens", "", batchLimit, 200),
		w.operatorAsk("offboardClient", http.MethodPost, ending+"/offboard", "", batchLimit, 200),
		get("listChangeRequests", "/operator/v1/change-requests"),
		get("readChangeRequest", hooking+"/change-request"),
		act("approveChangeRequest", http.MethodPost, hooking+"/change-request/approve", `{"request_id":"`+asked(hooked)+`"}`),
		act("refuseChangeRequest", http.MethodPost, leave+"/change-request/refuse", `{"request_id":"`+asked(leaving)+`","answer":"Not yet."}`),
		get("listClientErrors", plain+"/errors"),
		get("listEndedConnections", plain+"/ended-connections"),
		get("listUsage", "/operator/v1/usage"),
		get("readReport", "/operator/v1/report"),
		get("readClientUsage", plain+"/usage"),
		get("readWebhook", hook),
		act("setWebhook", http.MethodPut, hook, `{"url":"https://partner.invalid/events"}`),
		act("pauseWebhook", http.MethodPost, hook+"/pause", ""),
		act("resumeWebhook", http.MethodPost, hook+"/resume", ""),
		act("rotateWebhookSecret", http.MethodPost, hook+"/secret", ""),
		w.operatorAsk("testWebhook", http.MethodPost, hook+"/test", `{"type":"activity.updated"}`, batchLimit, 200),
		w.operatorAsk("removeWebhook", http.MethodDelete, removed, "", actLimit, 204),
		get("listWebhookEvents", "/operator/v1/webhook-events?client_id="+hooked),
		get("readWebhookEvent", event),
		act("replayWebhookEvent", http.MethodPost, event+"/replay", ""),
		get("findConnections", "/operator/v1/connections?client_id="+w.Partner.ID.String()),
		get("listUsers", "/operator/v1/users"),
		act("removeAdjustment", http.MethodDelete, user+"/adjustments/"+correction.ID.String(), ""),
		get("listAdjustments", user+"/adjustments"),
		act("createAdjustment", http.MethodPost, user+"/adjustments", `{"dataset":"daily_steps","date":"2026-11-20","delta":5,"note":"n"}`),
		get("readUserActivity", user+"/activity?from=2026-11-01&to=2026-11-30"),
		w.operatorAsk("exportUser", http.MethodGet, user+"/export", "", batchLimit, 200),
		get("listUserSignIns", user+"/sign-ins"),
		act("liftSignInLimits", http.MethodPost, user+"/sign-ins/lift-limits", ""),
		get("listSignIns", "/operator/v1/sign-ins?email=nobody@example.com"),
		get("find", "/operator/v1/find?text=Nobody"),
		get("listAuditLog", "/operator/v1/audit-log?limit=10"),
	}
}
