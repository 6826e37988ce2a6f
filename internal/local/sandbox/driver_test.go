package sandbox

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/wait"
)

// authorizationURL asks for scopes.
func (r *running) authorizationURL(scopes string, change ...func(url.Values)) string {
	query := url.Values{
		"client_id": {r.described.Client.ClientId.String()}, "redirect_uri": {r.described.Client.CallbackUrl},
		"response_type": {"code"}, "scope": {scopes}, "state": {"0123456789012345678901"},
		"code_challenge": {strings.Repeat("A", 43)}, "code_challenge_method": {"S256"},
	}
	for _, f := range change {
		f(query)
	}
	return r.described.BaseUrl + "/oauth/authorize?" + query.Encode()
}

func decision(url string, user uuid.UUID, decision string) string {
	return fmt.Sprintf(`{"authorization_url":%q,"user_id":%q,"decision":%q}`, url, user, decision)
}

// Every act of a driver, on one sandbox, one after the other: the last one moves the clock as far as it goes.
func TestDriver(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *running)
	}{
		{"description", testDescription},
		{"people record up to today", testPeopleRecordUpToToday},
		{"every documented answer", testEveryDocumentedAnswer},
		{"every failure can be forced", testEveryFailureCanBeForced},
		{"forced answers in order", testForcedAnswersInOrder},
		{"forced answers are not counted", testForcedAnswersAreNotCounted},
		{"sign-in follows the clock", testSignInFollowsTheClock},
		{"refusals", testRefusals},
		{"hosts", testHosts},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, r) })
	}
}

// Every answer of the document is given, and what is given is in the document: the client of the fixture looks.
func testEveryDocumentedAnswer(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	p.connect(t)
	faulty, err := newDriver(nil, &wait.Patient)
	if err != nil {
		t.Fatal(err)
	}
	broken := httptest.NewServer(telemetry.Requests(telemetry.NewLogger(io.Discard, slog.LevelError), faulty))
	t.Cleanup(broken.Close)

	user, client := "/sandbox/users/"+p.user.String(), p.described.Client.ClientId.String()
	nobody := "/sandbox/users/" + uuid.NewString()
	const steps = `{"daily_steps":[{"date":"2026-03-09","steps":1}]}`

	// The answers of each operation by itself. The first one is a success.
	other := "/sandbox/clients/" + r.newClient(t, `{}`).ClientId.String()
	unknown, offboarded := "/sandbox/clients/"+uuid.NewString(), "/sandbox/clients/"+r.newClient(t, `{}`).ClientId.String()
	want[nothing](t, r, 204, "PUT", offboarded+"/status", `{"status":"offboarded"}`)
	disabled := "/sandbox/clients/" + r.newClient(t, `{}`).ClientId.String()
	want[nothing](t, r, 204, "PUT", disabled+"/status", `{"status":"disabled"}`)
	stopped := r.stoppedWebhook(t)
	bare := r.newClient(t, `{}`)
	lost := r.of(bare).newWebhook(t).Id
	if err := r.service.Webhooks.RemoveEndpoint(t.Context(), bare.ClientId); err != nil { // as a partner does on its own pages
		t.Fatal(err)
	}
	answers := map[string][]struct{ want, method, path, body string }{
		"createClient": {
			{"201", "POST", "/sandbox/clients", `{}`},
			{"422 invalid-content", "POST", "/sandbox/clients", `{"burst":0}`},
		},
		"setClientStatus": {
			{"204", "PUT", other + "/status", `{"status":"disabled"}`},
			{"404 client-not-found", "PUT", unknown + "/status", `{"status":"disabled"}`},
			{"404 not-found", "PUT", "/sandbox/clients/mine/status", `{"status":"disabled"}`},
			{"409 client-offboarded", "PUT", offboarded + "/status", `{"status":"active"}`},
			{"422 invalid-content", "PUT", other + "/status", `{}`},
		},
		"rotateClientSecret": {
			{"200", "POST", other + "/secret", `{}`},
			{"404 client-not-found", "POST", unknown + "/secret", `{}`},
			{"404 not-found", "POST", "/sandbox/clients/mine/secret", `{}`},
			{"409 client-offboarded", "POST", offboarded + "/secret", `{}`},
			{"422 invalid-content", "POST", other + "/secret", `{"overlap_seconds":-1}`},
		},
		"rotateWebhookSecret": {
			{"200", "POST", other + "/webhook-secret", ""},
			{"404 client-not-found", "POST", unknown + "/webhook-secret", ""},
			{"404 not-found", "POST", "/sandbox/clients/mine/webhook-secret", ""},
			{"409 no-webhook", "POST", "/sandbox/clients/" + bare.ClientId.String() + "/webhook-secret", ""},
		},
		"createPortalLink": {
			{"200", "POST", other + "/portal-link", ""},
			{"404 client-not-found", "POST", unknown + "/portal-link", ""},
			{"404 not-found", "POST", "/sandbox/clients/mine/portal-link", ""},
			{"409 client-offboarded", "POST", offboarded + "/portal-link", ""},
			{"409 client-disabled", "POST", disabled + "/portal-link", ""},
		},
		"changeUser": {
			{"200", "PATCH", user, `{"timezone":"Asia/Tokyo"}`},
			{"404 user-not-found", "PATCH", nobody, `{"timezone":"Asia/Tokyo"}`},
			{"404 not-found", "PATCH", "/sandbox/users/me", `{"timezone":"Asia/Tokyo"}`},
			{"422 invalid-content", "PATCH", user, `{}`},
		},
		"resendWebhook": {
			{"204", "POST", "/sandbox/webhooks/" + r.newWebhook(t).Id + "/resend", ""},
			{"404 webhook-not-found", "POST", "/sandbox/webhooks/msg_" + strings.Repeat("0", 32) + "/resend", ""},
			{"404 not-found", "POST", "/sandbox/webhooks/all/resend", ""},
			{"409 webhook-stopped", "POST", "/sandbox/webhooks/" + stopped + "/resend", ""},
			{"409 no-webhook", "POST", "/sandbox/webhooks/" + lost + "/resend", ""},
		},
		"disturbDeliveries": {
			{"204", "POST", "/sandbox/deliveries", `{"fault":"duplicate"}`},
			{"422 invalid-content", "POST", "/sandbox/deliveries", `{}`},
		},
		"readSandbox": {{"200", "GET", "/sandbox", ""}},
		"decideAuthorization": {
			{"200", "POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read"), r.described.Users[0].UserId, "deny")},
			{"409 scope-mismatch", "POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read"), p.user, "allow")},
			{"422 invalid-content", "POST", "/sandbox/authorizations", `{}`},
		},
		"createUser": {
			{"201", "POST", "/sandbox/users", `{"kind":"new"}`},
			{"422 invalid-content", "POST", "/sandbox/users", `{}`},
		},
		"addActivity": {
			{"200", "POST", user + "/activity", steps},
			{"404 user-not-found", "POST", nobody + "/activity", steps},
			{"404 not-found", "POST", "/sandbox/users/me/activity", steps},
			{"422 invalid-content", "POST", user + "/activity", `{}`},
		},
		"disconnectUser": {
			{"204", "DELETE", user + "/connections/" + client, ""},
			{"404 not-connected", "DELETE", user + "/connections/" + uuid.NewString(), ""},
			{"404 not-found", "DELETE", user + "/connections/all", ""},
		},
		"advanceClock": {
			{"200", "POST", "/sandbox/clock", `{"advance_seconds":1}`},
			{"422 invalid-content", "POST", "/sandbox/clock", `{"advance_seconds":0}`},
		},
		"forceAnswers": {
			{"204", "POST", "/sandbox/answers", `{"operation_id":"revokeToken","status":500,"code":"server_error"}`},
			{"422 invalid-content", "POST", "/sandbox/answers", `{}`},
		},
		"forgetAnswers": {{"204", "DELETE", "/sandbox/answers", ""}},
		"listRequests":  {{"200", "GET", "/sandbox/requests", ""}},
		"listWebhooks":  {{"200", "GET", "/sandbox/webhooks", ""}},
		"listNotices":   {{"200", "GET", "/sandbox/notices", ""}},
		"deleteUser": {
			{"204", "DELETE", "/sandbox/users/" + r.newUser(t, sandboxapi.KindNew).String(), ""},
			{"404 user-not-found", "DELETE", nobody, ""},
			{"404 not-found", "DELETE", "/sandbox/users/me", ""},
		},
		"setWebhook": {
			{"204", "PUT", "/sandbox/webhook", fmt.Sprintf(`{"url":%q}`, r.described.Client.WebhookUrl)},
			{"404 client-not-found", "PUT", "/sandbox/webhook", fmt.Sprintf(`{"url":"https://partner.example/","client_id":%q}`, uuid.New())},
			{"409 client-offboarded", "PUT", "/sandbox/webhook",
				fmt.Sprintf(`{"url":"https://partner.example/","client_id":%q}`, strings.TrimPrefix(offboarded, "/sandbox/clients/"))},
			{"422 invalid-content", "PUT", "/sandbox/webhook", `{}`},
		},
	}
	var given []string
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		note := func(origin, method, path, contentType, body string) string {
			got := r.send(t, r.driver, method, origin+path, contentType, body)
			given = append(given, strings.TrimSpace(fmt.Sprintf("%s %d %s", id, got.Status, got.Code)))
			return given[len(given)-1]
		}
		for i, test := range answers[id] {
			if got := note(r.described.DriverUrl, test.method, test.path, "application/json", test.body); got != id+" "+test.want {
				t.Errorf("%s %s is %s, want %s", test.method, test.path, got, test.want)
			}
			if i > 0 {
				continue
			}
			note(r.described.DriverUrl, test.method, test.path+"?x=1", "application/json", test.body)
			note(broken.URL, test.method, test.path, "application/json", test.body)
			if test.body != "" {
				note(r.described.DriverUrl, test.method, test.path, "text/plain", test.body)
				note(r.described.DriverUrl, test.method, test.path, "application/json", strings.Repeat(" ", contract.MaxBody)+test.body)
			}
		}
	}
	slices.Sort(given)
	if diff := cmp.Diff(contracttest.Sandbox.Documented(t), given); diff != "" {
		t.Errorf("answers (-documented +given):\n%s", diff)
	}
	for _, test := range []struct{ method, path string }{
		{"GET", "/sandbox/"}, {"POST", "/sandbox"}, {"HEAD", "/sandbox"}, {"GET", "/sandbox/answers"}, {"GET", "/sandbox/webhook"},
		{"GET", "/sandbox//webhooks"}, {"GET", "/sandbox/x/../webhooks"}, {"DELETE", "/sandbox/webhooks"}, {"GET", "/sandbox/users"},
	} {
		if got := r.drive(t, test.method, test.path, ""); got.Status != 404 {
			t.Errorf("%s %s: %d", test.method, test.path, got.Status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} { // the service's own are still there
		if got := r.send(t, http.DefaultClient, "GET", r.described.DriverUrl+path, "", ""); got.Status != 200 {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
	for _, path := range []string{"/sandbox", "/sandbox/webhooks"} { // and the driver is on the private listener alone
		if got := r.send(t, &http.Client{Transport: p.partner}, "GET", p.described.BaseUrl+path, "", ""); got.Status != 404 {
			t.Errorf("%s of the public listener: %d", path, got.Status)
		}
	}
}

// Refusals say where and why.
func testRefusals(t *testing.T, r *running) {
	user := r.described.Users[0].UserId
	long := r.authorizationURL("daily_steps:read", func(q url.Values) { q.Set("state", strings.Repeat("s", 17_000)) })
	for _, test := range []struct {
		method, path, body string
		pointer, detail    string
	}{
		{"POST", "/sandbox/authorizations", decision("https://elsewhere.example/oauth/authorize?x", user, "allow"), "/authorization_url", "base_url"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read")+"#x", user, "allow"), "/authorization_url", "base_url"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("steps:write"), user, "allow"), "/authorization_url", "invalid_scope"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read", func(q url.Values) { q.Set("prompt", "x") }), user, "allow"),
			"/authorization_url", "invalid_request"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read", func(q url.Values) { q.Set("client_id", uuid.NewString()) }), user, "deny"),
			"/authorization_url", "unauthorized_client"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read", func(q url.Values) { q.Set("response_type", "token") }), user, "deny"),
			"/authorization_url", "unsupported_response_type"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read",
			func(q url.Values) { q.Set("redirect_uri", q.Get("redirect_uri")+"/") }), user, "allow"),
			"/authorization_url", "redirect_uri is not the registered one: it ends in a slash"},
		{"POST", "/sandbox/authorizations", decision(long, user, "allow"), "/authorization_url", "invalid_request"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read"), uuid.New(), "allow"), "/user_id", "a user of the sandbox"},
		{"POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read"), user, "maybe"), "/decision", "must be one of allow, deny"},
		{"POST", "/sandbox/users", `{"kind":"lazy"}`, "/kind", "must be one of active, sparse, gaps, corrected, new"},
		{"POST", "/sandbox/users", `{"kind":"new","timezone":"Mars/Base"}`, "/timezone", "time zone database"},
		{"POST", "/sandbox/users", `{"kind":"new","timezone":"Local"}`, "/timezone", "time zone database"},
		{"POST", "/sandbox/users/" + user.String() + "/activity", `{"daily_steps":[{"date":"2026-02-30","steps":1}]}`, "/daily_steps/0/date", "date"},
		{"POST", "/sandbox/users/" + user.String() + "/activity",
			`{"step_corrections":[{"correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-02-20","delta":0,"note":""}]}`, "/step_corrections/0/delta", "not 0"},
		{"POST", "/sandbox/users/" + user.String() + "/activity",
			`{"cycling_activities":[{"source_id":"r","recorded_start_time":"2026-02-20T25:00:00","distance_meters":1}]}`, "/cycling_activities/0/recorded_start_time", "exists"},
		{"POST", "/sandbox/users/" + user.String() + "/activity",
			`{"cycling_activities":[{"source_id":"r","recorded_start_time":"2026-02-20T23:00:00","recorded_end_time":"2026-02-20T23:60:00","distance_meters":1}]}`,
			"/cycling_activities/0/recorded_end_time", "exists"},
		{"POST", "/sandbox/clock", `{"advance_seconds":-1}`, "/advance_seconds", "at least 1"},
		{"POST", "/sandbox/clock", `{"advance_seconds":31622401}`, "/advance_seconds", "at most 31622400"},
		{"POST", "/sandbox/answers", `{"operation_id":"readUser","status":500,"code":"server_error"}`, "/operation_id", "must be one of"},
		{"POST", "/sandbox/answers", `{"operation_id":"readCyclingDaily","status":503,"code":"data_unavailable","not_attempted":true}`, "/not_attempted", "only goes with server_error"},
		{"POST", "/sandbox/answers", `{"operation_id":"requestToken","status":503,"code":"data_unavailable"}`, "/code", "openapi.yaml"},
		{"POST", "/sandbox/answers", `{"operation_id":"readDailyActivity","status":400,"code":"invalid_cursor"}`, "/code", "openapi.yaml"},
		{"POST", "/sandbox/answers", `{"operation_id":"readDailyActivity","status":429,"code":"data_unavailable"}`, "/code", "openapi.yaml"},
		{"POST", "/sandbox/answers", `{"operation_id":"getAuthorizationServerMetadata","status":500,"code":"server_error"}`, "/code", "openapi.yaml"},
		{"POST", "/sandbox/answers", `{"operation_id":"requestToken","status":500,"code":"server_error","times":0}`, "/times", "at least 1"},
		{"PUT", "/sandbox/webhook", `{"url":"http://partner.example/"}`, "/url", "https URL, or an http URL of localhost"},
		{"PATCH", "/sandbox/users/" + user.String(), `{"timezone":"Mars/Base"}`, "/timezone", "time zone database"},
		{"POST", "/sandbox/clients", `{"callback_url":"http://partner.example/callback"}`, "/callback_url", "https://"},
		{"POST", "/sandbox/clients", `{"webhook_url":"http://10.0.0.1/"}`, "/webhook_url", "localhost"},
		{"POST", "/sandbox/clients", `{"name":" Stride"}`, "/name", "space"},
		{"POST", "/sandbox/clients", `{"scopes":["steps:write"]}`, "/scopes/0", "must be one of"},
	} {
		got := r.drive(t, test.method, test.path, test.body)
		if got.Status != 422 || !strings.Contains(got.Errors[test.pointer], test.detail) || len(got.Errors) != 1 {
			t.Errorf("%s %s %.150s: %d %v, want %s to be told %q", test.method, test.path, test.body, got.Status, got.Errors, test.pointer, test.detail)
		}
	}
	if got := r.drive(t, "POST", "/sandbox/users/"+user.String()+"/activity", `{"removals":[`+strings.Repeat(`{"source_id":"a"},`, 6000)+`{"source_id":"b"}],"daily_steps":[`+
		strings.Repeat(`{"date":"2026-02-20","steps":1},`, 4000)+`{"date":"2026-02-20","steps":1}]}`); !strings.Contains(got.Errors[""], "10000 rows") {
		t.Errorf("10,002 rows: %d %v", got.Status, got.Errors)
	}
	// The clock goes ten years ahead, and no further.
	for r.clock.Offset() < farthest-366*24*time.Hour {
		r.advanceBy(t, 366*24*time.Hour)
	}
	if got := r.drive(t, "POST", "/sandbox/clock", `{"advance_seconds":31622400}`); got.Status != 422 || !strings.Contains(got.Errors["/advance_seconds"], "ten years") {
		t.Errorf("beyond ten years: %d %v", got.Status, got.Errors)
	}
	if got := want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", ""); got.Now <= r.described.Now {
		t.Errorf("it is %s", got.Now)
	}
}

// The description that the command prints is that of the driver.
func testDescription(t *testing.T, r *running) {
	got := want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "")
	described := r.described
	if got.Now < described.Now {
		t.Errorf("it is %s, and was %s", got.Now, described.Now)
	}
	got.Now, described.Now = "", ""
	if diff := cmp.Diff(described, got); diff != "" {
		t.Errorf("(-printed +read):\n%s", diff)
	}
	var kinds []string
	for _, user := range got.Users {
		kinds = append(kinds, string(user.Kind))
	}
	if diff := cmp.Diff([]string{"active", "sparse", "gaps", "corrected", "new"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	elsewhere := want[sandboxapi.User](t, r, 201, "POST", "/sandbox/users", `{"kind":"sparse","timezone":"Pacific/Kiritimati"}`)
	if all := want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "").Users; !cmp.Equal(all[len(all)-1], elsewhere) {
		t.Errorf("the last user is %v", all[len(all)-1])
	}
	want[nothing](t, r, 204, "PUT", "/sandbox/webhook", `{"url":"https://partner.example/hooks"}`)
	if client := want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "").Client; client.WebhookUrl != "https://partner.example/hooks" {
		t.Errorf("webhooks go to %s", client.WebhookUrl)
	}
}
