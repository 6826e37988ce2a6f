package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func TestConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	list := func() []operatorapi.Connection {
		t.Helper()
		got := f.send(t, outgoing{Method: "GET", Target: "/operator/v1/users/" + f.User.ID.String() + "/connections"})
		got.Check(t, 200, "", "list")
		return edgetest.Decode[operatorapi.Connections](t, got).Data
	}
	if got := list(); got == nil || len(got) != 0 {
		t.Errorf("connections of nobody: %v", got)
	}
	walk, _ := f.ConnectNew(t, "Walk Rewards")
	ride, tokens := f.ConnectNew(t, "Ride Club")
	f.Read(t, tokens, scope.DailySteps)
	got := list()
	if len(got) != 2 {
		t.Fatalf("%d connections", len(got))
	}
	for i := range got {
		got[i].AuthorizedAt = ""
	}
	day := got[0].HistoryFrom
	if day.String() != "2026-03-10" {
		t.Errorf("history_from is %s", day)
	}
	scopes := []operatorapi.Scope{"daily_steps:read", "cycling_daily:read", "cycling_activities:read"}
	at, steps := "2026-03-10T12:00:00.000Z", scopes[0]
	want := []operatorapi.Connection{
		{ClientId: ride.ID, ClientName: "Ride Club", GrantId: tokens.GrantID, ConnectionVersion: "1", State: "authorized", Scopes: scopes, HistoryFrom: day,
			LastReadAt: &at, LastReads: []operatorapi.LastRead{{At: at, Scope: &steps}}},
		{ClientId: walk.ID, ClientName: "Walk Rewards", GrantId: got[1].GrantId, ConnectionVersion: "1", State: "authorized", Scopes: scopes, HistoryFrom: day,
			LastReads: []operatorapi.LastRead{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}

	disconnect := outgoing{Method: "DELETE", Target: "/operator/v1/users/" + f.User.ID.String() + "/connections/" + ride.ID.String()}
	for range 2 { // it does no harm twice
		f.send(t, disconnect).Check(t, 204, "", "disconnect")
	}
	if _, err := f.config.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
		t.Error("the access token works")
	}
	if got := list(); len(got) != 1 || got[0].ClientId != walk.ID {
		t.Errorf("after the disconnect: %v", got)
	}
	disconnect.Target = "/operator/v1/users/" + uuid.NewString() + "/connections/" + walk.ID.String()
	f.send(t, disconnect).Check(t, 404, "not-connected", "somebody else")
	if n := pgtest.Value[int](t, f.DB, `select count(*)::int from audit_log where actor = 'operator' and action = 'connection.disconnected'`); n != 1 {
		t.Errorf("%d disconnects by the operator in the audit log, want 1", n)
	}
}
