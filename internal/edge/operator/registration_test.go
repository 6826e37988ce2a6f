package operator

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// One user is found by address in any case. For an address without a user the list is empty.
func TestUsersByEmail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.DB.User(t)
	by := func(email string) []operatorapi.User {
		return get[operatorapi.UserPage](t, f, "/operator/v1/users?email="+url.QueryEscape(email)).Data
	}
	if found := by(strings.ToUpper(f.User.Email)); len(found) != 1 || found[0].UserId != f.User.ID {
		t.Errorf("found %+v", found)
	}
	if found := by("nobody@example.com"); len(found) != 0 {
		t.Errorf("nobody is %+v", found)
	}
	first := get[operatorapi.UserPage](t, f, "/operator/v1/users?limit=1")
	if first.NextCursor == nil {
		t.Fatal("there is one page of two users")
	}
	last := get[operatorapi.UserPage](t, f, "/operator/v1/users?limit=1&cursor="+*first.NextCursor)
	if len(last.Data) != 1 || last.Data[0].UserId == first.Data[0].UserId || last.NextCursor != nil {
		t.Errorf("after %+v comes %+v", first, last)
	}
}

// A client can be registered and changed together with its webhook.
func TestClientWithItsWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const registration = `{"name":"Walk","callback_url":"https://walk.example/cb","scopes":["daily_steps:read"],"webhook_url":"https://walk.example/hook"}`
	got := f.post(t, "/operator/v1/clients", registration)
	got.Check(t, 201, "", "create")
	created := edgetest.Decode[operatorapi.CreatedClient](t, got)
	if created.WebhookSecret == nil || created.Client.Webhook == nil || created.ClientId != created.Client.ClientId {
		t.Fatalf("created: %+v", created)
	}
	path := "/operator/v1/clients/" + created.ClientId.String()
	change := func(body string) operatorapi.Client {
		t.Helper()
		got := f.send(t, outgoing{Method: "PATCH", Target: path, Body: body})
		got.Check(t, 200, "", body)
		return edgetest.Decode[operatorapi.ChangedClient](t, got).Client
	}
	if moved := change(`{"webhook_url":"https://walk.example/other"}`); moved.Webhook.Url != "https://walk.example/other" || moved.WebhookSecret != nil {
		t.Errorf("moved: %+v", moved)
	}
	for range 2 { // the second time there is none
		if left := change(`{"webhook_url":""}`); left.Webhook != nil {
			t.Errorf("removed: %+v", left.Webhook)
		}
	}
	if again := change(`{"webhook_url":"https://walk.example/hook"}`); again.WebhookSecret == nil {
		t.Error("a new webhook has no secret")
	}
	for _, bad := range []outgoing{
		{Method: "POST", Target: "/operator/v1/clients", Body: strings.Replace(registration, "https://walk.example/hook", "http://walk.example", 1)},
		{Method: "PATCH", Target: path, Body: `{"burst":7,"webhook_url":"walk"}`},
	} {
		got := f.send(t, bad)
		got.Check(t, 422, "invalid-content", bad.Method)
		if problem := edgetest.Decode[operatorapi.Problem](t, got); problem.Errors[0].Pointer != "/webhook_url" {
			t.Errorf("%s: %+v", bad.Method, problem.Errors)
		}
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from clients where burst = 7 or name = 'Walk'"); n != 1 {
		t.Errorf("%d clients were made or changed", n)
	}
}

// A client whose webhook cannot be set is registered all the same: no later answer could have its secret.
func TestClientWithoutTheWebhookThatFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.DB.Define(t, "alter table webhook_endpoints rename to away")
	got := f.post(t, "/operator/v1/clients",
		`{"name":"Walk","callback_url":"https://walk.example/cb","scopes":["daily_steps:read"],"webhook_url":"https://walk.example/hook"}`)
	got.Check(t, 201, "", "create")
	if created := edgetest.Decode[operatorapi.CreatedClient](t, got); created.ClientSecret == "" || created.WebhookSecret != nil {
		t.Errorf("created: %+v", created)
	}
	if !strings.Contains(f.Log.String(), "does not exist") {
		t.Error("the log has no cause")
	}
}

// The command line needs no token.
func TestInProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.Operators, f.config.InProcess = nil, true
	handler, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodDelete, "/operator/v1/users/"+f.User.ID.String(), nil))
	if answer.Code != http.StatusNoContent {
		t.Error(answer.Body)
	}
	if actor := pgtest.Value[string](t, f.DB, "select actor from audit_log where action = 'user.deleted'"); actor != "operator" {
		t.Errorf("the actor is %s", actor)
	}
}
