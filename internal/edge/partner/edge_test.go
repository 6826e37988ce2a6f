package partner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// Unknown paths and wrong methods (specification 4; decisions, section 2).
func TestNoOperation_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const id = "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55"
	for _, test := range []struct{ method, target, code string }{
		{"GET", "/connect-svc/v1/grants/", "not_found"},
		{"GET", "/connect-svc/v1/grants/" + id, "not_found"},
		{"GET", "/connect-svc/v1/grants/" + id + "/weekly", "not_found"},
		{"GET", "/connect-svc/v1/grants/" + id + "/daily-activity/", "not_found"},
		{"GET", "/connect-svc/v1/grants//daily-activity", "not_found"},
		{"GET", "/connect-svc/v1/grants/" + id + "%2Fdaily-activity", "not_found"},
		{"POST", "/connect-svc/v1/grants/" + id + "/daily-activity", "not_found"},
		{"DELETE", "/connect-svc/v1/grants/" + id + "/cycling-daily", "not_found"},
		{"OPTIONS", "/connect-svc/v1/grants/" + id + "/cycling-activities", "not_found"},
		{"INVENTED", "/connect-svc/v1/grants/" + id + "/daily-activity", "not_found"},
		{"GET", "/connect-svc/v1/grants", "invalid_request"},
		{"GET", "/connect-svc/v1/customer/grants/" + id, "invalid_request"},
		{"DELETE", "/connect-svc/v1/customer/grants/", "invalid_request"},
		{"DELETE", "/connect-svc/v1/customer/grants/" + id + "/", "invalid_request"},
		{"GET", "/connect-svc/v2/grants/" + id + "/daily-activity", "invalid_request"},
		{"GET", "/connect-svc/", "invalid_request"},
		{"GET", "/oauth/token", "invalid_request"},
		{"GET", "/oauth/token?grant_type=authorization_code", "invalid_request"},
		{"PUT", "/oauth/token", "invalid_request"},
		{"POST", "/oauth/token/", "invalid_request"},
		{"POST", "/oauth/token%2F", "invalid_request"},
		{"GET", "/oauth/revoke", "invalid_request"},
		{"HEAD", "/oauth/revoke", ""},
		{"POST", "/oauth/introspect", "invalid_request"},
		{"POST", "/.well-known/oauth-authorization-server", "invalid_request"},
	} {
		f.send(t, outgoing{Method: test.method, Target: test.target}).Check(t, 404, test.code)
	}
}

func TestIsBackend(t *testing.T) {
	for path, want := range map[string]bool{
		"/oauth/token":        true,
		"/oauth/nothing":      true,
		"/oauth/authorize":    false,
		"/oauth/authorize/":   true,
		"/connect-svc/":       true,
		"/connect-svc":        false,
		"/":                   false,
		"/nothing":            false,
		"/authorize/x/code":   false,
		"/static/connect.css": false,
		"/.well-known/oauth-authorization-server": true,
		"/.well-known/openid-configuration":       false,
	} {
		if got := IsBackend(path); got != want {
			t.Errorf("IsBackend(%q) = %t", path, got)
		}
	}
}

// events are the log's lines about requests.
func (f *fixture) events(t testing.TB) []map[string]any {
	t.Helper()
	var events []map[string]any
	for line := range strings.Lines(f.Log.String()) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event["msg"] == "request" {
			events = append(events, event)
		}
	}
	return events
}

// An internal fault is opaque outside, in the shape of its path, and is logged with its cause (specification 7.3, 7.4; decisions,
// section 5: never a free pass).
func TestFaults_7(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		change  func(t *testing.T) func(*fixture)
		request func(f *fixture, tokens oauth.Tokens) outgoing
		status  int
		code    string
		counted bool
		cause   string
	}{
		{"database away: token", noDatabase, func(f *fixture, tokens oauth.Tokens) outgoing {
			return refreshForm(f.client, tokens.RefreshToken)
		}, 500, "server_error", false, "closed pool"},
		{"database away: revoke", noDatabase, func(f *fixture, tokens oauth.Tokens) outgoing {
			return post(f.client, "/oauth/revoke", url.Values{"token": {tokens.AccessToken}})
		}, 500, "server_error", false, "closed pool"},
		{"database away: disconnect", noDatabase, func(f *fixture, tokens oauth.Tokens) outgoing {
			return disconnect(f.client, tokens.GrantID.String())
		}, 500, "server_error", false, "closed pool"},
		{"database away: read", noDatabase, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return steps(tokens.GrantID, tokens.AccessToken)
		}, 503, "data_unavailable", false, "closed pool"},
		{"limiter away", func(t *testing.T) func(*fixture) {
			return func(f *fixture) { f.DB.Exec(t, "alter table rate_limits rename to limits_of_nobody") }
		}, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return steps(tokens.GrantID, tokens.AccessToken)
		}, 503, "data_unavailable", false, "rate_limits"},
		{"limiter on Redis away", func(t *testing.T) func(*fixture) {
			return func(f *fixture) {
				server := redistest.Start(t)
				store, err := ratelimit.OpenRedis(t.Context(), server.URL(), wait.Patient.Limiter)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(store.Close)
				server.Kill()
				f.config.Limiter = ratelimit.New(store, wait.Patient.Limiter)
			}
		}, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return steps(tokens.GrantID, tokens.AccessToken)
		}, 503, "data_unavailable", false, "ratelimit: load"},
		{"daily steps away", noActivity, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return read("daily-activity", tokens.GrantID, tokens.AccessToken, today)
		}, 503, "data_unavailable", true, "closed pool"},
		{"daily cycling away", noActivity, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return read("cycling-daily", tokens.GrantID, tokens.AccessToken, today)
		}, 503, "data_unavailable", true, "closed pool"},
		{"cycling activities away", noActivity, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return read("cycling-activities", tokens.GrantID, tokens.AccessToken, today)
		}, 503, "data_unavailable", true, "closed pool"},
		{"panic in a read", func(*testing.T) func(*fixture) {
			return func(f *fixture) { f.config.Limiter = nil }
		}, func(_ *fixture, tokens oauth.Tokens) outgoing {
			return steps(tokens.GrantID, tokens.AccessToken)
		}, 503, "data_unavailable", false, "panic: "},
		{"panic elsewhere", func(*testing.T) func(*fixture) {
			return func(f *fixture) { f.config.OAuth = nil }
		}, func(f *fixture, tokens oauth.Tokens) outgoing {
			return refreshForm(f.client, tokens.RefreshToken)
		}, 500, "server_error", false, "panic: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var tokens oauth.Tokens
			f := newFixture(t, func(f *fixture) { tokens = f.Connect(t, f.client, scope.All) }, test.change(t))
			got := f.send(t, test.request(f, tokens))
			got.Check(t, test.status, test.code)
			if has := got.Header.Get("RateLimit-Limit") != ""; has != test.counted {
				t.Errorf("counted: %t, want %t", has, test.counted)
			}
			unsent := test.status == 500 && test.cause == "closed pool"
			if outcome := got.Header.Get("Connect-Outcome"); (outcome == "not-attempted") != unsent {
				t.Errorf("outcome is %q although the statement was sent: %t", outcome, !unsent)
			}
			event := f.event(t)
			cause, _ := event["cause"].(string)
			if event["level"] != "ERROR" || !strings.Contains(cause, test.cause) {
				t.Errorf("the log has no cause: %v", event)
			}
		})
	}
}

func noActivity(t *testing.T) func(*fixture) {
	return func(f *fixture) {
		pool := f.DB.Open(t)
		pool.Close()
		f.config.Activity = activity.New(pool, f.Keys, activity.Settings{CursorLifetime: time.Minute})
	}
}

func noDatabase(*testing.T) func(*fixture) { return func(f *fixture) { f.DB.Pool.Close() } }

// event is the one event of the one request that was sent.
func (f *fixture) event(t testing.TB) map[string]any {
	t.Helper()
	events := f.events(t)
	if len(events) != 1 {
		t.Fatalf("%d events, want 1", len(events))
	}
	return events[0]
}

// One event for each request, which says which operation, and never whose data or with what credential.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	badDates := steps(tokens.GrantID, tokens.AccessToken)
	replace("to="+today, "to=x")(&badDates)

	read := f.send(t, badDates)
	f.send(t, refreshForm(f.client, tokens.RefreshToken))
	f.send(t, disconnect(f.client, tokens.GrantID.String()))
	f.send(t, outgoing{Method: "GET", Target: "/connect-svc/v1/grants/" + tokens.GrantID.String()})

	events := f.events(t)
	for _, event := range events {
		for _, name := range []string{"time", "duration_ms", "msg"} {
			if event[name] == nil {
				t.Errorf("an event without %s", name)
			}
			delete(event, name)
		}
		if event["operation"] != "readDailyActivity" {
			delete(event, "request_id")
		}
	}
	id, hash := f.client.ID.String(), sha256.Sum256(tokens.GrantID[:])
	grant := hex.EncodeToString(hash[:8])
	want := []map[string]any{
		{"level": "INFO", "operation": "readDailyActivity", "method": "GET", "status": 400.0, "client_id": id,
			"grant": grant, "code": "invalid_date_range", "reason": "to is no date YYYY-MM-DD", "limiter": "admitted", "request_id": read.Header.Get("X-Request-ID")},
		{"level": "INFO", "operation": "requestToken", "method": "POST", "status": 200.0, "client_id": id, "grant": grant, "refresh": "rotated"},
		{"level": "INFO", "operation": "disconnectGrant", "method": "DELETE", "status": 204.0, "client_id": id},
		{"level": "INFO", "operation": "none", "method": "GET", "status": 404.0, "code": "not_found", "reason": "no such path or method"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, secret := range []string{tokens.GrantID.String(), "svca_A", "svcr2_A", f.client.Secret, edgetest.BasicOf(f.client), today} {
		if strings.Contains(f.Log.String(), secret) {
			t.Errorf("the log holds %.8s…", secret)
		}
	}
}

// Another client's access token opens nothing of this client's.
func TestForeignToken_4_6(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t, client.DefaultPolicy)
	mine, theirs := f.Connect(t, f.client, scope.All), f.Connect(t, other, scope.All)
	f.send(t, steps(mine.GrantID, theirs.AccessToken)).Check(t, 404, "not_found")
	f.send(t, steps(theirs.GrantID, mine.AccessToken)).Check(t, 404, "not_found")
}

// Each request has an id of its own, made by the service (specification 4).
func TestRequestID_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own := uuid.NewString()
	ids := map[string]bool{own: true}
	for range 3 {
		got := f.send(t, outgoing{Method: "GET", Target: "/connect-svc/v1/grants/x/daily-activity",
			Header: http.Header{"X-Request-ID": {own}}})
		got.Check(t, 401, "invalid_access_token")
		ids[got.Header.Get("X-Request-ID")] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d different ids, want 4", len(ids))
	}
}
