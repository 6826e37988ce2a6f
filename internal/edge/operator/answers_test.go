package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// messageID is the webhook-id of the only event of a client.
func (f *fixture) messageID(t *testing.T, id uuid.UUID) string {
	t.Helper()
	event := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events where client_id = $1", id)
	return "msg_" + strings.ReplaceAll(event.String(), "-", "")
}

// withEvent is a client with a webhook and an event.
func (f *fixture) withEvent(t *testing.T, name string) client.Client {
	t.Helper()
	partner, _ := f.ConnectNew(t, name)
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://partner.invalid/webhooks"); err != nil {
		t.Fatal(err)
	}
	if err := f.config.OAuth.DisconnectUser(t.Context(), f.User.ID, partner.ID); err != nil {
		t.Fatal(err)
	}
	found, err := f.config.Clients.Get(t.Context(), partner.ID)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// newLink creates a link to a client's pages.
func (f *fixture) newLink(t *testing.T, clientID string) uuid.UUID {
	t.Helper()
	made, _, err := f.Portal.CreateLink(t.Context(), portal.NewLink{ClientID: uuid.MustParse(clientID), Valid: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// supportAnswers are what the operations for support answer by themselves. The first of each is good.
func (f *fixture) supportAnswers(t *testing.T) map[string][]expected {
	t.Helper()
	newClient := func(status client.Status) string {
		return f.DB.Client(t, func(c *pgtest.Client) { c.Status = string(status) }).ID.String()
	}
	receiver, _ := edgetest.Receiver(t, nil)
	plain, gone, ending := newClient(client.Active), newClient(client.Offboarded), newClient(client.Active)
	told, bare, stopped := f.withEvent(t, "Told"), f.withEvent(t, "Bare"), f.withEvent(t, "Stopped")
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), told.ID, receiver); err != nil {
		t.Fatal(err)
	}
	if err := f.config.Webhooks.RemoveEndpoint(t.Context(), bare.ID); err != nil {
		t.Fatal(err)
	}
	f.DB.Exec(t, "update webhook_endpoints set stopped_at = now() where client_id = $1", stopped.ID)
	removed := f.withEvent(t, "Removed")

	for range 2 {
		f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Twice" })
	}

	spent := f.withEvent(t, "Spent")
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), spent.ID, receiver); err != nil {
		t.Fatal(err)
	}
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, client_id) select $1, 'ada', action, $1
		from unnest(array['client.secret_replaced', 'webhook.secret_rotated', 'webhook.tested']) as action, generate_series(1, 300)`, spent.ID)

	disabled, crowded, linked := newClient(client.Disabled), newClient(client.Active), newClient(client.Active)
	for range portal.MaxSessions {
		f.newLink(t, crowded)
	}

	asks := func() string {
		id := newClient(client.Active)
		if _, err := f.config.Clients.RequestChange(t.Context(), uuid.MustParse(id), func(r *client.Registration) { r.Policy.Burst++ }); err != nil {
			t.Fatal(err)
		}
		return id
	}
	asking, asking2 := asks(), asks()
	requestOf := func(clientID string) string {
		return pgtest.Value[string](t, f.DB, "select request_id::text from change_requests where client_id = $1", clientID)
	}
	approval := func(clientID string) string { return `{"request_id":"` + requestOf(clientID) + `"}` }
	refusal := func(clientID string) string {
		return `{"request_id":"` + requestOf(clientID) + `","answer":"Not yet."}`
	}

	const clients, events = "/operator/v1/clients/", "/operator/v1/webhook-events"
	nobody := uuid.NewString()
	found := func(method, rest, body string) []expected {
		return []expected{
			{"404 client-not-found", method, clients + nobody + rest, body},
			{"404 not-found", method, clients + "x" + rest, body},
		}
	}
	offboarded := func(method, rest, body string) []expected {
		return append(found(method, rest, body), expected{"409 client-offboarded", method, clients + gone + rest, body})
	}
	noWebhook := func(method, rest, body string) []expected {
		return append(found(method, rest, body), expected{"404 no-webhook", method, clients + plain + rest, body})
	}
	with := func(good expected, others ...[]expected) []expected {
		all := []expected{good}
		for _, more := range others {
			all = append(all, more...)
		}
		return all
	}
	badCursor := func(path string) []expected {
		return []expected{{"400 invalid-cursor", "GET", path + "cursor=e30", ""}}
	}
	overBudget := func(rest, body string) []expected {
		return []expected{{"429 over-budget", "POST", clients + spent.ID.String() + rest, body}}
	}
	invalid := func(method, path, body string) []expected {
		return []expected{{"422 invalid-content", method, path, body}}
	}
	const registration = `{"name":"Walk","callback_url":"https://walk.example/cb","scopes":["daily_steps:read"]}`
	const target, sample = `{"url":"https://walk.example/hook"}`, `{"type":"activity.updated"}`
	const adjustment = `{"dataset":"daily_steps","date":"2026-03-09","delta":5,"note":"n"}`
	user, stranger := "/operator/v1/users/"+f.User.ID.String(), "/operator/v1/users/"+nobody
	event := events + "/" + f.messageID(t, told.ID)
	noEvent := events + "/msg_" + strings.Repeat("0", 32)
	return map[string][]expected{
		"listClients": with(expected{"200", "GET", "/operator/v1/clients", ""}, badCursor("/operator/v1/clients?")),
		"createClient": with(expected{"201", "POST", "/operator/v1/clients", registration},
			invalid("POST", "/operator/v1/clients", `{}`)),
		"readClient": with(expected{"200", "GET", clients + plain, ""}, found("GET", "", "")),
		"changeClient": with(expected{"200", "PATCH", clients + plain, `{"burst":7}`}, offboarded("PATCH", "", `{"burst":7}`),
			invalid("PATCH", clients+plain, `{}`)),
		"rotateClientSecret": with(expected{"200", "POST", clients + plain + "/secret", `{}`}, offboarded("POST", "/secret", `{}`),
			invalid("POST", clients+plain+"/secret", `{"overlap_seconds":2592001}`), overBudget("/secret", `{}`)),
		"disableClient":      with(expected{"200", "POST", clients + plain + "/disable", ""}, offboarded("POST", "/disable", "")),
		"enableClient":       with(expected{"200", "POST", clients + plain + "/enable", ""}, offboarded("POST", "/enable", "")),
		"suspendClient":      with(expected{"200", "POST", clients + plain + "/suspend", ""}, offboarded("POST", "/suspend", "")),
		"resumeClient":       with(expected{"200", "POST", clients + plain + "/resume", ""}, offboarded("POST", "/resume", ""), overBudget("/resume", "")),
		"revokeClientTokens": with(expected{"200", "POST", clients + plain + "/revoke-tokens", ""}, offboarded("POST", "/revoke-tokens", "")),
		"createPortalLink": with(expected{"201", "POST", clients + plain + "/portal-links", `{}`}, offboarded("POST", "/portal-links", `{}`),
			invalid("POST", clients+plain+"/portal-links", `{"valid_seconds":59}`), []expected{
				{"409 client-disabled", "POST", clients + disabled + "/portal-links", `{}`},
				{"409 too-many-portal-sessions", "POST", clients + crowded + "/portal-links", `{}`},
			}),
		"listChangeRequests": with(expected{"200", "GET", "/operator/v1/change-requests", ""}, badCursor("/operator/v1/change-requests?")),
		"readChangeRequest": with(expected{"200", "GET", clients + asking + "/change-request", ""}, found("GET", "/change-request", ""),
			[]expected{{"404 change-request-not-found", "GET", clients + plain + "/change-request", ""}}),
		"approveChangeRequest": with(expected{"200", "POST", clients + asking + "/change-request/approve", approval(asking)}, offboarded("POST", "/change-request/approve", approval(asking)),
			[]expected{{"404 change-request-not-found", "POST", clients + plain + "/change-request/approve", approval(asking)}},
			invalid("POST", clients+asking+"/change-request/approve", `{}`)),
		"refuseChangeRequest": with(expected{"200", "POST", clients + asking2 + "/change-request/refuse", refusal(asking2)}, offboarded("POST", "/change-request/refuse", refusal(asking2)),
			[]expected{{"404 change-request-not-found", "POST", clients + plain + "/change-request/refuse", refusal(asking2)}},
			invalid("POST", clients+asking2+"/change-request/refuse", strings.Replace(refusal(asking2), "Not yet.", "", 1))),
		"listPortalSessions": with(expected{"200", "GET", clients + plain + "/portal-sessions", ""}, found("GET", "/portal-sessions", "")),
		"endPortalSessions":  with(expected{"204", "DELETE", clients + plain + "/portal-sessions", ""}, found("DELETE", "/portal-sessions", "")),
		"endPortalSession": with(expected{"204", "DELETE", clients + linked + "/portal-sessions/" + f.newLink(t, linked).String(), ""},
			found("DELETE", "/portal-sessions/"+nobody, ""),
			[]expected{{"404 portal-session-not-found", "DELETE", clients + plain + "/portal-sessions/" + nobody, ""}}),
		"offboardClient": with(expected{"200", "POST", clients + ending + "/offboard", ""}, offboarded("POST", "/offboard", "")),
		"listEndedConnections": with(expected{"200", "GET", clients + plain + "/ended-connections", ""}, found("GET", "/ended-connections", ""),
			badCursor(clients+plain+"/ended-connections?")),
		"listClientErrors": with(expected{"200", "GET", clients + plain + "/errors", ""}, found("GET", "/errors", ""), badCursor(clients+plain+"/errors?")),
		"readClientUsage":  with(expected{"200", "GET", clients + plain + "/usage", ""}, found("GET", "/usage", "")),
		"readWebhook":      with(expected{"200", "GET", clients + told.ID.String() + "/webhook", ""}, noWebhook("GET", "/webhook", "")),
		"listUsage":        with(expected{"200", "GET", "/operator/v1/usage", ""}, badCursor("/operator/v1/usage?")),
		"readReport": {{"200", "GET", "/operator/v1/report?client_id=" + plain, ""},
			{"404 client-not-found", "GET", "/operator/v1/report?client_id=" + nobody, ""}},
		"setWebhook": with(expected{"200", "PUT", clients + removed.ID.String() + "/webhook", target}, offboarded("PUT", "/webhook", target),
			invalid("PUT", clients+removed.ID.String()+"/webhook", `{"url":"http://walk.example"}`)),
		"removeWebhook": with(expected{"204", "DELETE", clients + removed.ID.String() + "/webhook", ""}, noWebhook("DELETE", "/webhook", "")),
		"rotateWebhookSecret": with(expected{"200", "POST", clients + told.ID.String() + "/webhook/secret", ""}, noWebhook("POST", "/webhook/secret", ""),
			overBudget("/webhook/secret", "")),
		"pauseWebhook":  with(expected{"200", "POST", clients + told.ID.String() + "/webhook/pause", ""}, noWebhook("POST", "/webhook/pause", "")),
		"resumeWebhook": with(expected{"200", "POST", clients + told.ID.String() + "/webhook/resume", ""}, noWebhook("POST", "/webhook/resume", "")),
		"testWebhook": with(expected{"200", "POST", clients + told.ID.String() + "/webhook/test", sample}, noWebhook("POST", "/webhook/test", sample),
			invalid("POST", clients+told.ID.String()+"/webhook/test", `{"type":"x"}`), overBudget("/webhook/test", sample),
			[]expected{{"409 client-offboarded", "POST", clients + gone + "/webhook/test", sample}}),
		"listWebhookEvents": with(expected{"200", "GET", events, ""}, badCursor(events+"?"),
			[]expected{{"404 client-not-found", "GET", events + "?client_id=" + nobody, ""}}),
		"readWebhookEvent": {{"200", "GET", event, ""}, {"404 webhook-event-not-found", "GET", noEvent, ""}, {"404 not-found", "GET", events + "/x", ""}},
		"replayWebhookEvent": {{"200", "POST", event + "/replay", ""}, {"404 webhook-event-not-found", "POST", noEvent + "/replay", ""},
			{"404 not-found", "POST", events + "/x/replay", ""},
			{"409 not-replayable", "POST", events + "/" + f.messageID(t, bare.ID) + "/replay", ""},
			{"409 webhook-stopped", "POST", events + "/" + f.messageID(t, stopped.ID) + "/replay", ""}},
		"findConnections": with(expected{"200", "GET", "/operator/v1/connections", ""}, badCursor("/operator/v1/connections?"), []expected{
			{"404 user-not-found", "GET", "/operator/v1/connections?user_id=" + nobody, ""},
			{"404 client-not-found", "GET", "/operator/v1/connections?client_id=" + nobody, ""}}),
		"listAdjustments": with(expected{"200", "GET", user + "/adjustments", ""}, badCursor(user+"/adjustments?"), []expected{
			{"404 user-not-found", "GET", stranger + "/adjustments", ""}, {"404 not-found", "GET", "/operator/v1/users/me/adjustments", ""}}),
		"createAdjustment": with(expected{"200", "POST", user + "/adjustments", adjustment},
			invalid("POST", user+"/adjustments", strings.Replace(adjustment, "5", "0", 1)), []expected{
				{"404 user-not-found", "POST", stranger + "/adjustments", adjustment},
				{"404 not-found", "POST", "/operator/v1/users/me/adjustments", adjustment}}),
		"exportUser": {
			{"200", "GET", user + "/export", ""},
			{"404 user-not-found", "GET", stranger + "/export", ""},
			{"404 not-found", "GET", "/operator/v1/users/me/export", ""},
		},
		"listUserSignIns": {
			{"200", "GET", user + "/sign-ins", ""},
			{"404 user-not-found", "GET", stranger + "/sign-ins", ""},
			{"404 not-found", "GET", "/operator/v1/users/me/sign-ins", ""},
		},
		"liftSignInLimits": {
			{"200", "POST", user + "/sign-ins/lift-limits", ""},
			{"404 user-not-found", "POST", stranger + "/sign-ins/lift-limits", ""},
			{"404 not-found", "POST", "/operator/v1/users/me/sign-ins/lift-limits", ""},
		},
		"listSignIns": {{"200", "GET", "/operator/v1/sign-ins?email=nobody@example.com", ""}},
		"readUserActivity": {
			{"200", "GET", user + "/activity?from=2026-03-01&to=2026-03-31", ""},
			{"404 user-not-found", "GET", stranger + "/activity?from=2026-03-01&to=2026-03-31", ""},
			{"404 not-found", "GET", "/operator/v1/users/me/activity?from=2026-03-01&to=2026-03-31", ""},
		},
		"previewUser": {
			{"200", "GET", user + "/preview", ""},
			{"404 user-not-found", "GET", stranger + "/preview", ""},
			{"404 not-found", "GET", "/operator/v1/users/me/preview", ""},
		},
		"previewConnection": {
			{"200", "GET", user + "/connections/" + told.ID.String() + "/preview", ""},
			{"404 user-not-found", "GET", stranger + "/connections/" + told.ID.String() + "/preview", ""},
			{"404 client-not-found", "GET", user + "/connections/" + nobody + "/preview", ""},
			{"404 not-connected", "GET", user + "/connections/" + plain + "/preview", ""},
			{"404 not-found", "GET", user + "/connections/x/preview", ""},
		},
		"previewAdjustment": {
			{"200", "GET", user + "/adjustments/" + nobody + "/preview", ""},
			{"404 user-not-found", "GET", stranger + "/adjustments/" + nobody + "/preview", ""},
			{"404 not-found", "GET", user + "/adjustments/x/preview", ""},
		},
		"previewClient": with(expected{"200", "GET", clients + plain + "/preview", ""}, found("GET", "/preview", "")),
		"removeAdjustment": {
			{"200", "DELETE", user + "/adjustments/" + nobody, ""},
			{"404 user-not-found", "DELETE", stranger + "/adjustments/" + nobody, ""},
			{"404 not-found", "DELETE", user + "/adjustments/x", ""},
		},
		"find": {{"200", "GET", "/operator/v1/find?text=Told", ""}},
		"listAuditLog": with(expected{"200", "GET", "/operator/v1/audit-log", ""}, badCursor("/operator/v1/audit-log?"), []expected{
			{"404 user-not-found", "GET", "/operator/v1/audit-log?email=nobody@example.com", ""},
			{"404 client-not-found", "GET", "/operator/v1/audit-log?client_name=Nobody", ""},
			{"409 several-clients", "GET", "/operator/v1/audit-log?client_name=twice", ""}}),
	}
}
