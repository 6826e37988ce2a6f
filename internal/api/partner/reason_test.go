package partner

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
	"connect-svc/internal/testing/edgetest"
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
func TestReasonsOfRefusedForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t, plenty)
	foreign := f.Connect(t, other, scope.All)
	tokens := f.Connect(t, f.client, scope.All)
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}}
	exchange := url.Values{"grant_type": {"authorization_code"}, "code": {f.Code(t, f.client, scope.All)},
		"redirect_uri": {callback}, "code_verifier": {verifier}}
	type row struct {
		name   string
		fields url.Values
		change func(*outgoing)
		reason string
	}
	rows := []row{
		{"query", refresh, query("?token=secret-value"), "there is a query string, and the operation takes none"},
		{"two headers", refresh, header("Authorization", edgetest.BasicOf(f.client), edgetest.BasicOf(f.client)), "there is more than one Authorization header"},
		{"content type", refresh, header("Content-Type", "application/json"), "Content-Type is not application/x-www-form-urlencoded, once"},
		{"long", refresh, extend("&x=" + strings.Repeat("x", 8192)), "the body has more than 8192 bytes"},
		{"encoding", refresh, extend("&secret-value=%zz"), "a field " + refusal.NotEncoded},
		{"encoding of a field", refresh, extend("&code=%zz"), "field code " + refusal.NotEncoded},
		{"NUL", refresh, set("refresh_token", "\x00"), "field refresh_token has a NUL, or text that is not UTF-8"},
		{"repeated", refresh, extend("&grant_type=refresh_token"), "field grant_type is repeated"},
		{"unknown and repeated", refresh, extend("&secret-value=x&secret-value=x"), "a field is repeated"},
		{"unknown", refresh, extend("&secret-value=x"), "an unknown field: there is no other than code, code_verifier, grant_type, redirect_uri, refresh_token"},
		{"misspelt", refresh, extend("&refresh-tokn=x"), "an unknown field: perhaps refresh_token is meant"},
		{"scope", refresh, set("scope", "daily_steps:read"), "field scope is not allowed with grant_type=refresh_token"},
		{"secret in the body", refresh, all(header("Authorization"), set("client_id", f.client.ID.String()), set("client_secret", f.client.Secret)),
			"credentials in the body: client_secret (they belong in the Authorization header)"},
		{"no header", refresh, header("Authorization"), "there is no Authorization header"},
		{"bearer", refresh, header("Authorization", "Bearer x"), "Authorization is not Basic with the base64 of client_id:client_secret, each form-encoded"},
		{"id", refresh, header("Authorization", edgetest.Basic("secret-value", "x")), "client_id is no UUID in lower case"},
		{"secret", refresh, header("Authorization", edgetest.Basic(f.client.ID.String(), "secret-value")), "client_id or client_secret is wrong, or the client is not active"},
		{"no grant type", refresh, drop("grant_type"), "field grant_type is missing"},
		{"grant type", refresh, set("grant_type", "secret-value"), "grant_type is not authorization_code or refresh_token"},
		{"no refresh token", refresh, drop("refresh_token"), "field refresh_token is missing with grant_type=refresh_token"},
		{"code with refresh", refresh, set("code", "secret-value"), "field code is not allowed with grant_type=refresh_token"},
		{"verifier", exchange, set("code_verifier", "secret-value"), "field code_verifier is not of 43 to 128 characters, which are letters, digits and . _ ~ -"},
		{"no refresh token of ours", refresh, set("refresh_token", "secret-value"), "refresh_token was not issued by this service, or was altered"},
		{"another client's", refresh, set("refresh_token", foreign.RefreshToken), "refresh_token is another client's"},
		{"no code of ours", exchange, set("code", "secret-value"), "code was not issued by this service, or was altered"},
		{"redirect_uri", exchange, set("redirect_uri", callback+"/"), "redirect_uri is not the one of the authorization request"},
		{"another verifier", exchange, set("code_verifier", strings.Repeat("a", 43)), "code_verifier does not match code_challenge of the authorization request"},
	}
	// All others have proved who they are, also where the form is too broken to be read: the event and the client's own errors say so.
	unproven := []string{"two headers", "secret in the body", "no header", "bearer", "id", "secret"}
	for _, row := range rows {
		out := post(f.client, "/oauth/token", row.fields)
		row.change(&out)
		f.send(t, out)
		if got := f.lastEvent(t); got.Reason != row.reason {
			t.Errorf("%s: %q (%s), want %q", row.name, got.Reason, got.Code, row.reason)
		} else if proven := got.ClientID == f.client.ID.String(); proven == slices.Contains(unproven, row.name) {
			t.Errorf("%s: the event is of client %q", row.name, got.ClientID)
		}
	}
	last := func(name string, out outgoing, reason string) {
		t.Helper()
		f.send(t, out)
		if got := f.lastEvent(t); got.Reason != reason {
			t.Errorf("%s: %q (%s), want %q", name, got.Reason, got.Code, reason)
		}
	}
	f.DB.Clock.Advance(121 * time.Second)
	last("expired", post(f.client, "/oauth/token", exchange), "code has expired")
	next := f.send(t, post(f.client, "/oauth/token", refresh))
	next.Check(t, 200, "")
	if got := f.lastEvent(t); got.Reason != "" {
		t.Errorf("a success has the reason %q", got.Reason)
	}
	last("replayed", post(f.client, "/oauth/token", refresh), "the refresh token was used before, and so the connection was revoked")
	last("revoked", post(f.client, "/oauth/token", refresh), "the connection is revoked")
	if strings.Contains(f.Log.String(), "secret-value") {
		t.Error("the log holds what a caller sent")
	}
}

func TestReasonsOfRefusedReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.DailySteps|scope.CyclingActivities)
	base := "/connect-svc/v1/grants/" + tokens.GrantID.String()
	day := "from=2026-03-10&to=2026-03-10"
	for _, row := range []struct{ target, reason string }{
		{base + "/cycling-daily?" + day, "the connection does not have the scope cycling_daily:read"},
		{"/connect-svc/v1/grants/8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55/daily-activity?" + day, "grant_id is not that of the access token"},
		{base + "/daily-activity?" + day + "&secret-value=1", "an unknown parameter: there is no other than from, to"},
		{base + "/daily-activity?start_date=2026-03-10&to=2026-03-10", "an unknown parameter: perhaps from is meant"},
		{base + "/daily-activity?" + day + "&from=2026-03-10", "parameter from is repeated"},
		{base + "/daily-activity?" + day + "&secret-value=%zz", "a parameter " + refusal.NotEncoded},
		{base + "/daily-activity?to=2026-03-10", "from is missing, a date YYYY-MM-DD"},
		{base + "/daily-activity?from=secret-value&to=2026-03-10", "from is no date YYYY-MM-DD"},
		{base + "/daily-activity?from=2026-03-10&to=2026-03-09", "to is before from"},
		{base + "/daily-activity?from=2026-03-10&to=2026-03-12", "to is later than tomorrow in UTC"},
		{base + "/daily-activity?from=2026-03-09&to=2026-03-10", "from is before history_from of the connection"},
		{base + "/cycling-activities?" + day + "&limit=501", "limit is no number from 1 to 500 in plain digits"},
		{base + "/cycling-activities?" + day + "&cursor=", "cursor is empty, or has more than 4096 characters"},
		{base + "/cycling-activities?" + day + "&cursor=secret-value", "cursor was not issued by this service, or was altered"},
		{base + "/secret-value", "no such path or method"},
		{base + "/daily-activities", "no such path or method: perhaps GET /connect-svc/v1/grants/{grant_id}/daily-activity is meant"},
		{"/oauth//token/", "no such path or method: perhaps POST /oauth/token is meant"},
		{"/connect-svc/v1/customer/grants/" + tokens.GrantID.String(), "no such path or method: perhaps DELETE /connect-svc/v1/customer/grants/{grant_id} is meant"},
		{"/connect-svc/v1/grants//daily-activity", "no such path or method: perhaps GET /connect-svc/v1/grants/{grant_id}/daily-activity is meant"},
	} {
		f.send(t, outgoing{Method: "GET", Target: row.target, Header: http.Header{"Authorization": {"Bearer " + tokens.AccessToken}}})
		if got := f.lastEvent(t); got.Reason != row.reason {
			t.Errorf("%s: %q (%s), want %q", row.target, got.Reason, got.Code, row.reason)
		}
	}
	read := func(reason, client string, authorization ...string) {
		t.Helper()
		f.send(t, outgoing{Method: "GET", Target: base + "/daily-activity?" + day, Header: http.Header{"Authorization": authorization}})
		if got := f.lastEvent(t); got.Reason != reason || got.ClientID != client {
			t.Errorf("%q of client %q (%s), want %q", got.Reason, got.ClientID, got.Code, reason)
		}
	}
	read("there is no Authorization header", "")
	read("Authorization is not Bearer with an access token", "", "Basic x")
	read("the access token was not issued by this service, or was altered", "", "Bearer secret-value")
	f.DB.Clock.Advance(301 * time.Second)
	read("the access token has expired", f.client.ID.String(), "Bearer "+tokens.AccessToken)
	if strings.Contains(f.Log.String(), "secret-value") {
		t.Error("the log holds what a caller sent")
	}
}
