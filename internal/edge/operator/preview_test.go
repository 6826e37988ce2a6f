package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// A preview tells what the act then does, and changes nothing itself. The audit log names those who have seen the total of a day.
func TestPreviews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ride, _ := f.ConnectNew(t, "Ride Club")
	walk, _ := f.ConnectNew(t, "Walk Rewards")
	user := "/operator/v1/users/" + f.User.ID.String()
	f.post(t, "/operator/v1/activity", f.batch(`{"daily_steps":[{USER,"date":"2026-03-01","steps":5},{USER,"date":"2026-03-02","steps":7}],
		"cycling_activities":[{USER,"source_id":"a","recorded_start_time":"2026-03-01T07:00:00","distance_meters":9}]}`)).Check(t, 200, "", "activity")
	corrected := f.post(t, user+"/adjustments", `{"dataset":"daily_steps","date":"2026-03-01","delta":5,"note":"n"}`)
	corrected.Check(t, 200, "", "correction")
	whole := func() string {
		return pgtest.Value[string](t, f.DB, `select (select string_agg(c::text, ' ') from connections c) || (select string_agg(u::text, ' ') from users u) ||
			(select count(*) from audit_log where action <> 'activity.viewed') || (select count(*) from webhook_events) || (select string_agg(c::text, ' ') from clients c)`)
	}
	before := whole()
	get := func(path string) answer {
		t.Helper()
		got := f.send(t, outgoing{Method: "GET", Target: path + "/preview"})
		got.Check(t, 200, "", path)
		return got
	}

	event := func(want operatorapi.ConnectionPreviewEvent) {
		t.Helper()
		got := edgetest.Decode[operatorapi.ConnectionPreview](t, get(user+"/connections/"+ride.ID.String()))
		if got.Event != want || got.ClientName != "Ride Club" || got.Email != f.User.Email || got.State != "authorized" || got.ConnectionVersion != "1" {
			t.Errorf("the preview of a disconnection is %+v, want the event %s", got, want)
		}
	}
	event(operatorapi.ConnectionPreviewEventNone)
	if before != whole() {
		t.Error("the preview of a disconnection changes something")
	}
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), ride.ID, "https://partner.invalid/webhooks"); err != nil {
		t.Fatal(err)
	}
	event(operatorapi.ConnectionPreviewEventSent)
	if _, err := f.config.Webhooks.Pause(t.Context(), ride.ID); err != nil {
		t.Fatal(err)
	}
	event(operatorapi.ConnectionPreviewEventWaits)
	f.DB.Exec(t, "update webhook_endpoints set stopped_at = now() where client_id = $1", ride.ID)
	event(operatorapi.ConnectionPreviewEventStopped)
	f.DB.Exec(t, "update webhook_endpoints set stopped_at = null")

	before = whole()
	correction := user + "/adjustments/" + edgetest.Decode[operatorapi.Adjustment](t, corrected).AdjustmentId.String()
	removal := edgetest.Decode[operatorapi.AdjustmentPreview](t, get(correction))
	if diff := cmp.Diff([]operatorapi.RemovalPreview{
		{Dataset: "daily_steps", Date: removal.Data[0].Date, Delta: 5, Note: "n", Before: new(int64(10)), After: new(int64(5))},
	}, removal.Data); diff != "" || removal.Data[0].Date.String() != "2026-03-01" {
		t.Errorf("the preview of a removal (-want +got):\n%s", diff)
	}
	if got := pgtest.Value[string](t, f.DB, "select string_agg(actor || ' ' || detail::text, '') from audit_log where action = 'activity.viewed'"); got != `operator {"to": "2026-03-01", "from": "2026-03-01"}` {
		t.Errorf("who has seen the total of the day: %s", got)
	}
	deleting := edgetest.Decode[operatorapi.UserPreview](t, get(user))
	if diff := cmp.Diff(operatorapi.UserPreview{
		UserId: f.User.ID, Email: f.User.Email, Connections: 2, Days: 2, Rides: 1, Corrections: 1,
		Sessions: deleting.Sessions, SignIns: deleting.SignIns, Requests: deleting.Requests, Browsers: deleting.Browsers,
	}, deleting); diff != "" {
		t.Errorf("the preview of a deletion (-want +got):\n%s", diff)
	}
	ending := func() operatorapi.ClientPreview {
		t.Helper()
		return edgetest.Decode[operatorapi.ClientPreview](t, get("/operator/v1/clients/"+ride.ID.String()))
	}
	client := ending()
	if client.Name != "Ride Club" || client.Connections.Authorized != 1 || client.Connections.Precision != "exact" || client.WaitingEvents != 0 || client.Event != "waits" {
		t.Errorf("the preview of an act on a client is %+v", client)
	}
	if client.OldSecretUntil != nil || client.OldWebhookSecretUntil != nil {
		t.Errorf("old secrets of a client that has none: %+v", client)
	}
	if before != whole() {
		t.Error("a preview changes something")
	}

	clients := "/operator/v1/clients/" + ride.ID.String()
	f.post(t, clients+"/secret", `{"overlap_seconds":3600}`).Check(t, 200, "", "a new secret")
	f.post(t, clients+"/webhook/secret", "").Check(t, 200, "", "a new secret of the webhook")
	if client = ending(); client.OldSecretUntil == nil || client.OldWebhookSecretUntil == nil || *client.OldSecretUntil >= *client.OldWebhookSecretUntil {
		t.Errorf("with old secrets for an hour and for a day: %+v", client)
	}
	f.post(t, clients+"/secret", `{}`).Check(t, 200, "", "a new secret")
	if client = ending(); client.OldSecretUntil != nil {
		t.Errorf("after a secret that replaced all at once: %+v", client)
	}

	revoked := f.post(t, "/operator/v1/clients/"+ride.ID.String()+"/revoke-tokens", "")
	revoked.Check(t, 200, "", "revoke")
	if got := edgetest.Decode[operatorapi.RevokedClientTokens](t, revoked); got.ConnectionsRevoked != client.Connections.Authorized {
		t.Errorf("%d connections are revoked, and the preview was %+v", got.ConnectionsRevoked, client.Connections)
	}
	if client = ending(); client.WaitingEvents != 1 || client.Connections.Revoked != 1 {
		t.Errorf("after the revocation: %+v", client)
	}
	offboarded := f.post(t, "/operator/v1/clients/"+walk.ID.String()+"/offboard", "")
	offboarded.Check(t, 200, "", "offboard")
	if got := edgetest.Decode[operatorapi.UserPreview](t, get(user)).Connections; got != 1 {
		t.Errorf("%d connections after one has ended, want 1", got)
	}
	f.send(t, outgoing{Method: "DELETE", Target: user}).Check(t, 204, "", "delete")
	f.send(t, outgoing{Method: "GET", Target: user + "/preview"}).Check(t, 404, "user-not-found", "a deleted user")
}
