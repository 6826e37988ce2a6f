package sandbox

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/logtest"
)

// A partner's answer has a fixed text; the sandbox tells the true reason in a header, by the driver and on standard error.
func TestWhyARequestWasRefused(t *testing.T) {
	t.Parallel()
	var stderr logtest.Buffer
	r := start(t, func(c *Config) { c.Logger = telemetry.NewLogger(&stderr, slog.LevelWarn) })
	var told []string // the last first
	ask := func(id, secret string, form url.Values) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), "POST", r.described.BaseUrl+"/oauth/token", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth(id, url.QueryEscape(secret))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := r.network.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		told = append([]string{response.Header.Get("X-Connect-Reason") + " " + response.Header.Get("X-Request-ID") + " " + response.Header.Get("Link")}, told...)
	}
	id, secret := r.described.Client.ClientId.String(), r.described.Client.ClientSecret
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"secret-value"}}
	ask(id, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"secret-value"}, "scope": {"daily_steps:read"}})
	ask(id, "secret-value", refresh)
	ask(uuid.NewString(), secret, refresh)
	ask(id, secret, refresh)
	r.force(t, "requestToken", 500, "server_error")
	ask(id, secret, refresh)

	reasons := []string{
		"forced by POST /sandbox/answers",
		"refresh_token was not issued by this service, or was altered",
		"client_id is not one of the sandbox's clients",
		"client_id or client_secret is wrong, or the client is not active",
		"field scope is not allowed with grant_type=refresh_token",
	}
	listed := want[sandboxapi.RequestLog](t, r, 200, "GET", "/sandbox/requests", "").Data
	if len(listed) != len(reasons) {
		t.Fatalf("%d requests are listed, want %d", len(listed), len(reasons))
	}
	for i, reason := range reasons {
		got := listed[i]
		if got.Operation != "requestToken" || got.Status < 400 || got.Code == nil || got.Reason == nil || *got.Reason != reason {
			t.Errorf("request %d: %+v, want %q", i, got, reason)
		}
		help := "<" + r.described.BaseUrl + "/developers/error-codes.html#" + postgres.Value(got.Code) + `>; rel="help"`
		if want := reason + " " + got.RequestId.String() + " " + help; told[i] != want {
			t.Errorf("request %d is answered with %q, want %q", i, told[i], want)
		}
		if !strings.Contains(stderr.String(), reason) {
			t.Errorf("standard error lacks %q", reason)
		}
	}
	if strings.Contains(stderr.String(), "secret-value") {
		t.Error("standard error has what was sent")
	}
}

// Deleting an account ends its connections, tells the partner, and leaves no user.
func TestDeletedAccount(t *testing.T) {
	t.Parallel()
	r := start(t)
	p := r.newPartner(t, sandboxapi.KindActive)
	grant := p.connect(t).GrantID
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+p.user.String(), "")
	sent := r.webhook(t, grant, func(w sandboxapi.Webhook) bool { return w.Type == sandboxapi.WebhookTypeConnectionRevoked })
	if !strings.Contains(sent.Body, "account_deleted") {
		t.Errorf("the webhook says %s", sent.Body)
	}
	if got := r.drive(t, "DELETE", "/sandbox/users/"+p.user.String(), ""); got.Status != 404 || got.Code != "user-not-found" {
		t.Errorf("deleting once more: %d %s", got.Status, got.Code)
	}
	for _, user := range want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "").Users {
		if user.UserId == p.user {
			t.Error("the user is still listed")
		}
	}
	r.newUser(t, sandboxapi.KindActive) // nobody's address is given twice
}
