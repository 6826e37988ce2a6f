package partner

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"github.com/google/uuid"
)

// lastEvent is the event of the request that was answered last.
func (f *fixture) lastEvent(t *testing.T) (event struct {
	Code, Reason string
	ClientID     string `json:"client_id"`
}) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(f.Log.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &event); err != nil {
		t.Fatal(err)
	}
	return event
}

// Callers get one text for many reasons; the event of the request has the one that holds, and nothing of what was sent.
func TestReasonsOfMistakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, mistake := range edgetest.Mistakes(t, f.OAuth, f.client, f.newClient(t, plenty), f.User.ID) {
		f.send(t, mistake.Request)
		// A client that has proved who it is did so also where the form is too broken to be read: the event says so.
		if got := f.lastEvent(t); got.Reason != mistake.Reason {
			t.Errorf("%s: %q (%s), want %q", mistake.Name, got.Reason, got.Code, mistake.Reason)
		} else if proven := got.ClientID == f.client.ID.String(); proven != (mistake.Knows == edgetest.Proven) {
			t.Errorf("%s: the event is of client %q", mistake.Name, got.ClientID)
		}
	}
	if strings.Contains(f.Log.String(), "secret-value") {
		t.Error("the log holds what a caller sent")
	}
}

// A refused request has the grant of the connection whose token it had, for the list of refused requests, and the log has not.
func TestGrantsOfRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	handler, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan telemetry.Event, 1)
	f.url, f.browser = edgetest.Serve(t, telemetry.Requests(f.config.Logger, handler, func(event *telemetry.Event) { events <- *event }), contracttest.Partner)
	refresh := refreshForm(f.client, tokens.RefreshToken)
	refused := func(name string, out outgoing, grant uuid.UUID) {
		t.Helper()
		f.send(t, out)
		if got := <-events; got.Code == "" || got.GrantID != grant {
			t.Errorf("%s: %q of grant %s, want %s", name, got.Code, got.GrantID, grant)
		}
	}
	f.send(t, refresh)
	<-events
	refused("a replay", refresh, tokens.GrantID)
	refused("a refresh of a revoked connection", refresh, tokens.GrantID)
	refused("a read", steps(tokens.GrantID, tokens.AccessToken), tokens.GrantID)
	refused("a token of nobody", refreshForm(f.client, "svcr2_x"), uuid.Nil)
	stranger := f.client
	stranger.Secret = "svci_wrong"
	refused("a stranger", refreshForm(stranger, tokens.RefreshToken), uuid.Nil)
	if strings.Contains(f.Log.String(), tokens.GrantID.String()) {
		t.Error("the log has a grant")
	}
}

// A request that was right is refused later, with the reason.
func TestReasonsOfLateRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	refresh := refreshForm(f.client, tokens.RefreshToken)
	exchange := post(f.client, "/oauth/token", url.Values{"grant_type": {"authorization_code"}, "code": {f.Code(t, f.client, scope.All)},
		"redirect_uri": {callback}, "code_verifier": {verifier}})
	last := func(out outgoing, reason string) {
		t.Helper()
		f.send(t, out)
		if got := f.lastEvent(t); got.Reason != reason || got.ClientID != f.client.ID.String() {
			t.Errorf("%q of client %q (%s), want %q", got.Reason, got.ClientID, got.Code, reason)
		}
	}
	f.DB.Clock.Advance(121 * time.Second)
	last(exchange, "code has expired")
	f.DB.Clock.Advance(180 * time.Second)
	last(steps(tokens.GrantID, tokens.AccessToken), "the access token has expired")
	last(refresh, "")
	last(refresh, "the refresh token was used before, and so the connection was revoked")
	last(refresh, "the connection was revoked on "+f.DB.Now().UTC().Format(time.DateOnly)+", because a used refresh token was presented again")
}
