package operator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func as(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
}

// get wants an answer of 200.
func get[T any](t *testing.T, f *fixture, path string) T {
	t.Helper()
	got := f.send(t, outgoing{Method: "GET", Target: path})
	got.Check(t, 200, "", path)
	return edgetest.Decode[T](t, got)
}

// A token for reading looks at everything and changes nothing, whatever there is; who holds one of the others is the actor.
func TestNamedTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	walk, _ := f.ConnectNew(t, "Walk Rewards")
	connection := "/operator/v1/users/" + f.User.ID.String() + "/connections/" + walk.ID.String()
	for _, test := range []struct{ method, path string }{
		{"POST", "/operator/v1/clients"}, {"DELETE", connection}, {"PUT", "/operator/v1/nothing"}, {"POST", "/operator/v1/users"},
		{"PATCH", "/operator/v1/clients/" + walk.ID.String()}, {"POST", "/operator/v1/clients/" + walk.ID.String() + "/webhook/test"},
	} {
		got := f.send(t, outgoing{Method: test.method, Target: test.path, Body: "{", Header: as(edgetest.GraceToken)})
		got.Check(t, 403, "read-only", test.method+" "+test.path)
	}
	reading := outgoing{Method: "GET", Target: "/operator/v1/clients/" + walk.ID.String(), Header: http.Header{"Authorization": {"Bearer " + edgetest.GraceToken}}}
	f.send(t, reading).Check(t, 200, "", "a look")

	f.send(t, outgoing{Method: "DELETE", Target: connection, Header: http.Header{"Authorization": {"Bearer " + edgetest.AdaToken}}}).Check(t, 204, "", "ada")
	f.post(t, "/operator/v1/clients/"+walk.ID.String()+"/disable", "").Check(t, 200, "", "without a name")
	log := get[operatorapi.AuditPage](t, f, "/operator/v1/audit-log?client_id="+walk.ID.String())
	var acts []string
	for _, event := range log.Data {
		acts = append(acts, event.Actor+" "+event.Action)
	}
	if diff := cmp.Diff([]string{"user consent.allowed", "client connection.authorized", "ada connection.disconnected", "operator client.disabled"}, acts); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
	for name, want := range map[string]int{"ada": 1, "grace": 7, "operator": 2} {
		if n := strings.Count(f.Log.String(), `"operator":"`+name+`"`); n != want {
			t.Errorf("%d lines of the log name %s, want %d", n, name, want)
		}
	}
}

// Listing the log leaves an entry in it, one a minute for any number of pages.
func TestAuditLogByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	other := f.DB.User(t)
	count := func(query string) int {
		t.Helper()
		return len(get[operatorapi.AuditPage](t, f, "/operator/v1/audit-log?"+query).Data)
	}
	if all, named := count("user_id="+f.User.ID.String()), count("email="+strings.ToUpper(f.User.Email)); all == 0 || named != all {
		t.Errorf("%d entries by address, want %d", named, all)
	}
	if all, named := count("client_id="+partner.ID.String()), count("client_name=ride+club"); all == 0 || named != all {
		t.Errorf("%d entries by name, want %d", named, all)
	}
	for _, query := range []string{"email=" + f.User.Email + "&user_id=" + other.ID.String(), "client_name=Ride+Club&client_id=" + uuid.NewString(), "email=" + other.Email} {
		if got := count(query); got != 0 {
			t.Errorf("%s: %d entries", query, got)
		}
	}
}

// Nothing has the nil UUID, which a program sends that has not set its variable: a filter by it does not list what is about others.
func TestNilUUIDIsNobodys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
		values ($1, true, now(), 'x', 400, 'x', 'x', 1)`, partner.ID)
	nobody := uuid.Nil.String()
	for _, query := range []string{"user_id=" + nobody, "client_id=" + nobody, "user_id=" + f.User.ID.String() + "&client_id=" + nobody} {
		if log := get[operatorapi.AuditPage](t, f, "/operator/v1/audit-log?"+query); len(log.Data) != 0 || log.Data == nil {
			t.Errorf("%s: %d entries of the audit log", query, len(log.Data))
		}
	}
	errs := get[operatorapi.ClientErrorPage](t, f, "/operator/v1/clients/"+partner.ID.String()+"/errors?grant_id="+nobody)
	if len(errs.Data) != 0 || errs.Data == nil {
		t.Errorf("%d refused requests", len(errs.Data))
	}
	f.send(t, outgoing{Method: "GET", Target: "/operator/v1/report?client_id=" + nobody}).Check(t, 404, "client-not-found", "a report")
}

func TestListingOfTheLogIsAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const list = "/operator/v1/audit-log"
	noted := func(want string) {
		t.Helper()
		got := pgtest.Value[string](t, f.DB, `select coalesce(string_agg(actor || ' ' || (detail ->> 'by'), ', ' order by id), '') from audit_log where action = 'audit.exported'`)
		if got != want {
			t.Errorf("%s took the log, want %s", got, want)
		}
	}
	as := func(token, target string, status int) {
		t.Helper()
		code := map[int]string{400: "invalid-cursor", 401: "unauthorized"}[status]
		f.send(t, outgoing{Method: "GET", Target: target, Header: http.Header{"Authorization": {"Bearer " + token}}}).Check(t, status, code, target)
	}
	as("nobody's", list, 401)
	as(edgetest.AdaToken, list+"?cursor=e30", 400)
	noted("")
	for range 3 {
		as(edgetest.AdaToken, list+"?limit=1", 200)
		as(edgetest.GraceToken, list, 200)
	}
	noted("ada operator_api, grace operator_api")
	f.DB.Clock.Advance(time.Minute)
	as(edgetest.AdaToken, list, 200)
	noted("ada operator_api, grace operator_api, ada operator_api")
}

// The life of a client: its secret is told by the answers that make one, and by nothing else.
func TestClients(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const body = `{"name":"Walk Rewards","callback_url":"https://walk.example/cb","scopes":["cycling_daily:read","daily_steps:read"],
		"burst":7,"contact_email":"it@walk.example","logo":"PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxwYXRoIGQ9Ik0wIDBoOXY5eiIvPjwvc3ZnPg=="}`
	got := f.post(t, "/operator/v1/clients", body)
	got.Check(t, 201, "", "create")
	created := edgetest.Decode[operatorapi.CreatedClient](t, got)
	id, path := created.Client.ClientId, got.Header.Get("Location")
	if path != "/operator/v1/clients/"+id.String() {
		t.Errorf("Location is %s", path)
	}
	works := func(secret string) bool {
		credentials, err := oauth.NewCredentials(id.String(), secret)
		if err != nil {
			t.Fatal(err)
		}
		return f.config.OAuth.AuthenticateClient(t.Context(), credentials) == nil
	}
	want := operatorapi.Client{
		ClientId: id, Name: "Walk Rewards", Status: "active", CallbackUrl: "https://walk.example/cb",
		Scopes: []operatorapi.Scope{"daily_steps:read", "cycling_daily:read"}, RequestsPerMinute: 600, Burst: 7, ConcurrentReads: 10,
		WebhookParallel: 8, ContactEmail: "it@walk.example", Logo: created.Client.Logo, CreatedAt: created.Client.CreatedAt,
	}
	if diff := cmp.Diff(want, get[operatorapi.Client](t, f, path)); diff != "" || want.Logo == "" {
		t.Errorf("client (-want +got):\n%s", diff)
	}
	if !works(created.ClientSecret) {
		t.Error("the secret does not work")
	}

	change := f.send(t, outgoing{Method: "PATCH", Target: path, Body: `{"name":"Walk Club","logo":"","contact_email":"","concurrent_reads":3}`})
	change.Check(t, 200, "", "change")
	want.Name, want.Logo, want.ContactEmail, want.ConcurrentReads = "Walk Club", "", "", 3
	if diff := cmp.Diff(want, edgetest.Decode[operatorapi.ChangedClient](t, change).Client); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	twin := f.post(t, "/operator/v1/clients", strings.Replace(body, "Walk Rewards", "Wa1k Club", 1))
	twin.Check(t, 201, "", "a twin")
	if alike := edgetest.Decode[operatorapi.CreatedClient](t, twin).LookAlikes; len(alike) != 1 || alike[0].ClientId != id {
		t.Errorf("look-alikes: %v", alike)
	}

	rotate := func(body string) operatorapi.RotatedClientSecret {
		t.Helper()
		got := f.post(t, path+"/secret", body)
		got.Check(t, 200, "", "rotate")
		return edgetest.Decode[operatorapi.RotatedClientSecret](t, got)
	}
	second := rotate(`{"overlap_seconds":3600}`)
	if !works(created.ClientSecret) || !works(second.ClientSecret) || second.OldSecretUntil == nil {
		t.Errorf("meanwhile: %t, %t, until %v", works(created.ClientSecret), works(second.ClientSecret), second.OldSecretUntil)
	}
	if shown := get[operatorapi.Client](t, f, path).OldSecretUntil; shown == nil || *shown != *second.OldSecretUntil {
		t.Errorf("the client's secret of before works until %v, want %s", shown, *second.OldSecretUntil)
	}
	third := rotate(`{}`)
	if works(created.ClientSecret) || works(second.ClientSecret) || !works(third.ClientSecret) || third.OldSecretUntil != nil {
		t.Errorf("after another rotation: %t, %t, %t", works(created.ClientSecret), works(second.ClientSecret), works(third.ClientSecret))
	}
	f.post(t, path+"/disable", "").Check(t, 200, "", "disable")
	if works(third.ClientSecret) {
		t.Error("a disabled client gets in")
	}
	f.post(t, path+"/enable", "").Check(t, 200, "", "enable")
	if !works(third.ClientSecret) {
		t.Error("an enabled client does not get in")
	}
	all := f.send(t, outgoing{Method: "GET", Target: "/operator/v1/clients"}).Body + f.send(t, outgoing{Method: "GET", Target: "/operator/v1/audit-log"}).Body +
		f.send(t, outgoing{Method: "GET", Target: path}).Body + f.Log.String()
	for _, secret := range []string{created.ClientSecret, second.ClientSecret, third.ClientSecret} {
		if strings.Contains(all, secret) || strings.Contains(all, fmt.Sprintf("%x", credential.Hash(secret))) {
			t.Error("a secret is told again")
		}
	}

	for what, test := range map[string]struct {
		body string
		want map[string]string
	}{
		"name":     {`{"name":" x"}`, map[string]string{"/name": "must be 1 to 100 characters, without characters that cannot be seen or space at its ends"}},
		"callback": {`{"callback_url":"http://x/y"}`, map[string]string{"/callback_url": "must begin with https:// and a host"}},
		"homepage": {`{"homepage_url":"x"}`, map[string]string{"/homepage_url": "must be an https:// address of at most 2048 characters"}},
		"burst":    {`{"burst":0}`, map[string]string{"/burst": "must be at least 1"}},
		"logo":     {`{"logo":"eA=="}`, map[string]string{"/logo": "must be an SVG or PNG file of at most 64 KiB in base64, and is not an SVG file that can be read"}},
		"base64":   {`{"logo":"e"}`, map[string]string{"/logo": "must be an SVG or PNG file of at most 64 KiB in base64, and is not base64"}},
		"secret":   {`{"client_secret":"x"}`, map[string]string{"/client_secret": "is not known"}},
	} {
		got := f.send(t, outgoing{Method: "PATCH", Target: path, Body: test.body})
		got.Check(t, 422, "invalid-content", what)
		for pointer := range test.want {
			if got.Errors[pointer] == "" {
				t.Errorf("%s: errors are %v", what, got.Errors)
			}
		}
	}
}

// A thief in a partner's pages cannot hide what was changed there behind many acts of another kind, such as events that are sent again.
func TestSuspendListsChangesBehindReplays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	if _, err := f.config.Webhooks.SetEndpoint(work.WithActor(t.Context(), "partner:eve"), partner.ID, "https://eve.example/hook"); err != nil {
		t.Fatal(err)
	}
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, client_id)
		select $1, 'partner:eve', 'webhook.replayed', $1 from generate_series(1, 2500)`, partner.ID)
	got := f.post(t, "/operator/v1/clients/"+partner.ID.String()+"/suspend", "")
	got.Check(t, 200, "", "suspend")
	acts := map[string]int{}
	for _, change := range edgetest.Decode[operatorapi.SuspendedClient](t, got).Changes {
		acts[change.Actor+" "+change.Action]++
	}
	if diff := cmp.Diff(map[string]int{"operator client.disabled": 1, "partner:eve webhook.replayed": 10, "partner:eve webhook.created": 1}, acts); diff != "" {
		t.Errorf("acts (-want +got):\n%s", diff)
	}
}

// A client that was broken into is cut off, its last changes tell who moved what, and it comes back with new secrets alone.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.post(t, "/operator/v1/clients", `{"name":"Walk","callback_url":"https://walk.example/cb","scopes":["daily_steps:read"],"webhook_url":"https://walk.example/hook"}`)
	got.Check(t, 201, "", "create")
	created := edgetest.Decode[operatorapi.CreatedClient](t, got)
	path := "/operator/v1/clients/" + created.ClientId.String()
	works := func(secret string) bool {
		t.Helper()
		credentials, err := oauth.NewCredentials(created.ClientId.String(), secret)
		return err == nil && f.config.OAuth.AuthenticateClient(t.Context(), credentials) == nil
	}
	edgetest.Connect(t, f.config.OAuth, pgtest.Client{ID: created.ClientId, Secret: created.ClientSecret, CallbackURL: "https://walk.example/cb"}, scope.DailySteps, f.User.ID)
	if _, err := f.config.Webhooks.SetEndpoint(work.WithActor(t.Context(), "partner:eve"), created.ClientId, "https://eve.example/hook"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.config.Portal.CreateLink(t.Context(), portal.NewLink{ClientID: created.ClientId, Valid: portal.MaxValid}); err != nil {
		t.Fatal(err)
	}

	for range 2 { // the second time nothing changes
		got = f.post(t, path+"/suspend", "")
		got.Check(t, 200, "", "suspend")
	}
	suspended := edgetest.Decode[operatorapi.SuspendedClient](t, got)
	var changes []string
	for _, change := range suspended.Changes {
		changes = append(changes, change.Actor+" "+change.Action)
	}
	if diff := cmp.Diff([]string{"operator client.disabled", "operator client.portal_link_created", "partner:eve webhook.url_set", "operator webhook.created", "operator client.created"}, changes); diff != "" || suspended.Client.Status != "disabled" {
		t.Errorf("%s, changed (-want +got):\n%s", suspended.Client.Status, diff)
	}
	if sessions, err := f.config.Portal.Sessions(t.Context(), created.ClientId); err != nil || len(sessions) > 0 {
		t.Errorf("%d links work, %v", len(sessions), err)
	}
	if works(created.ClientSecret) {
		t.Error("a suspended client gets in")
	}

	got = f.post(t, path+"/resume", "")
	got.Check(t, 200, "", "resume")
	resumed := edgetest.Decode[operatorapi.ResumedClient](t, got)
	if works(created.ClientSecret) || !works(resumed.ClientSecret) || resumed.Client.Status != "active" {
		t.Errorf("%s: the former secret works %t, the new one %t", resumed.Client.Status, works(created.ClientSecret), works(resumed.ClientSecret))
	}
	if resumed.WebhookSecret == nil || *resumed.WebhookSecret == *created.WebhookSecret || resumed.Client.Webhook.RotatingUntil != nil {
		t.Errorf("the webhook: %+v", resumed.Client.Webhook)
	}
	plain := f.DB.Client(t)
	got = f.post(t, "/operator/v1/clients/"+plain.ID.String()+"/resume", "")
	got.Check(t, 200, "", "without a webhook")
	if without := edgetest.Decode[operatorapi.ResumedClient](t, got); without.WebhookSecret != nil || without.ClientSecret == "" {
		t.Errorf("without a webhook: %+v", without)
	}
}

// A client is enabled, with the one secret that it has left, also if its webhook is removed meanwhile: the address may be that of a thief.
func TestResumeWhileTheWebhookIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	f.DB.Webhook(t, partner.ID)
	path := "/operator/v1/clients/" + partner.ID.String()
	f.post(t, path+"/suspend", "").Check(t, 200, "", "suspend")
	removal, err := f.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = removal.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := removal.Exec(t.Context(), "delete from webhook_endpoints where client_id = $1", partner.ID); err != nil {
		t.Fatal(err)
	}
	resumed := make(chan answer, 1)
	go func() { resumed <- f.post(t, path+"/resume", "") }()
	wait.Until(t, "the new secret of the webhook waits", func() bool { return f.DB.Waiting(t) > 0 })
	if err := removal.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := wait.For(t, "the answer", resumed)
	got.Check(t, 200, "", "resume")
	if client := edgetest.Decode[operatorapi.ResumedClient](t, got); client.Client.Status != "active" || client.ClientSecret == "" || client.WebhookSecret != nil {
		t.Errorf("resumed: %s", got.Body)
	}
}

// Of two calls at once each is whole: one ends the client, and each secret that was given out works.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	path := "/operator/v1/clients/" + partner.ID.String()
	twice := func(out outgoing) (both [2]answer) {
		var group sync.WaitGroup
		for i := range both {
			group.Go(func() { both[i] = f.send(t, out) })
		}
		group.Wait()
		return both
	}
	for _, got := range twice(outgoing{Method: "POST", Target: path + "/secret", Body: `{"overlap_seconds":60}`}) {
		got.Check(t, 200, "", "rotate")
		credentials, err := oauth.NewCredentials(partner.ID.String(), edgetest.Decode[operatorapi.RotatedClientSecret](t, got).ClientSecret)
		if err != nil || f.config.OAuth.AuthenticateClient(t.Context(), credentials) != nil {
			t.Error("a secret that was given out does not work")
		}
	}
	id := uuid.New()
	for _, got := range twice(outgoing{Method: "POST", Target: "/operator/v1/users/" + f.User.ID.String() + "/adjustments",
		Body: fmt.Sprintf(`{"adjustment_id":%q,"dataset":"cycling_daily","date":"2026-03-09","delta":5,"note":"n"}`, id)}) {
		got.Check(t, 200, "", "adjust")
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from cycling_adjustments"); n != 1 {
		t.Errorf("%d adjustments", n)
	}
	set := 0
	for _, got := range twice(outgoing{Method: "PUT", Target: path + "/webhook", Body: `{"url":"https://walk.example/hook"}`}) {
		got.Check(t, 200, "", "set a webhook")
		if edgetest.Decode[operatorapi.WebhookWithSecret](t, got).WebhookSecret != nil {
			set++
		}
	}
	if set != 1 {
		t.Errorf("%d signing secrets were given out", set)
	}
	ended := map[int]int{}
	for _, got := range twice(outgoing{Method: "POST", Target: path + "/offboard"}) {
		ended[got.Status]++
	}
	if ended[200] != 1 || ended[409] != 1 {
		t.Errorf("offboarded: %v", ended)
	}
}

func TestFindConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	walk, _ := f.ConnectNew(t, "Walk Rewards")
	ride, _ := f.ConnectNew(t, "Ride Club")
	first := f.User
	f.User = f.DB.User(t)
	f.ConnectNew(t, "Third")
	if err := f.config.OAuth.DisconnectUser(t.Context(), first.ID, ride.ID); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"":                                       3,
		"?user_id=" + first.ID.String():          2,
		"?email=" + strings.ToUpper(first.Email): 2,
		"?client_id=" + walk.ID.String():         1,
		"?client_id=" + walk.ID.String() + "&email=" + f.User.Email:        0,
		"?user_id=" + first.ID.String() + "&email=" + f.User.Email:         0,
		"?user_id=" + f.User.ID.String() + "&email=" + f.User.Email:        1,
		"?user_id=" + first.ID.String() + "&client_id=" + ride.ID.String(): 1,
	} {
		if got := get[operatorapi.FoundConnectionPage](t, f, "/operator/v1/connections"+query); len(got.Data) != want || got.NextCursor != nil {
			t.Errorf("%s: %d connections, want %d", query, len(got.Data), want)
		}
	}
	got := get[operatorapi.FoundConnectionPage](t, f, "/operator/v1/connections?client_id="+ride.ID.String()).Data
	if len(got) != 1 || got[0].State != "disconnected" || got[0].UserId != first.ID || got[0].ClientName != "Ride Club" {
		t.Errorf("the one that ended: %+v", got)
	}
	f.send(t, outgoing{Method: "GET", Target: "/operator/v1/connections?email=nobody@example.com"}).Check(t, 404, "user-not-found", "nobody")
	if log := f.Log.String(); strings.Contains(log, first.Email) || strings.Contains(strings.ToLower(log), "nobody@") {
		t.Error("an address is in the log")
	}
}

func TestAdjustments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := "/operator/v1/users/" + f.User.ID.String() + "/adjustments"
	id := uuid.New()
	create := func(id uuid.UUID, dataset, date string, delta int) {
		t.Helper()
		got := f.send(t, outgoing{Method: "POST", Target: path, Header: as(edgetest.AdaToken), Body: fmt.Sprintf(
			`{"adjustment_id":%q,"dataset":%q,"date":%q,"delta":%d,"note":"asked for"}`, id, dataset, date, delta)})
		got.Check(t, 200, "", "create")
		if one := edgetest.Decode[operatorapi.Adjustment](t, got); one.AdjustmentId != id || int(one.Delta) != delta || one.Date.String() != date {
			t.Errorf("created %+v", one)
		}
	}
	create(id, "daily_steps", "2026-03-09", 31337)
	create(id, "cycling_daily", "2026-03-09", 4) // another list
	create(id, "cycling_daily", "2026-03-09", 4) // again: nothing new
	create(uuid.New(), "cycling_daily", "2026-03-08", 5)
	create(uuid.New(), "daily_steps", "2026-03-10", 6)
	create(uuid.New(), "daily_steps", "2026-03-09", 7)
	create(uuid.Max, "cycling_daily", "2026-03-09", 8)

	var want, got []string
	for _, one := range get[operatorapi.AdjustmentPage](t, f, path).Data {
		want = append(want, fmt.Sprint(one.Date, one.Dataset, one.Delta))
	}
	if len(want) != 6 {
		t.Errorf("%d adjustments: %v", len(want), want)
	}
	cursor := ""
	for pages := 1; ; pages++ {
		page := get[operatorapi.AdjustmentPage](t, f, path+"?limit=1"+cursor)
		for _, one := range page.Data {
			got = append(got, fmt.Sprint(one.Date, one.Dataset, one.Delta))
		}
		if page.NextCursor == nil || pages > 10 {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page by page (-want +got):\n%s", diff)
	}
	noted := pgtest.Value[string](t, f.DB, "select string_agg(distinct actor || ' ' || action, ',') || count(*) from audit_log")
	if noted != "ada activity.adjusted6" {
		t.Errorf("the audit log says %s", noted)
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from audit_log where detail::text ~ '31337|asked'"); n != 0 {
		t.Error("the audit log has activity")
	}
	f.post(t, path, `{"dataset":"daily_steps","date":"2026-02-30","delta":1,"note":""}`).Check(t, 422, "invalid-content", "no date")
	f.post(t, path, `{"dataset":"cycling_daily","date":"2026-03-09","delta":0,"note":""}`).WantErrors(t, "nothing",
		map[string]string{"/delta": "must be a whole number from -2147483648 to 2147483647, and not 0"})
	f.post(t, path, `{"adjustment_id":"00000000-0000-0000-0000-000000000000","dataset":"cycling_daily","date":"2026-03-09","delta":1,"note":""}`).
		WantErrors(t, "nil", map[string]string{"/adjustment_id": "must not be the nil UUID"})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	path := "/operator/v1/clients/" + partner.ID.String()
	f.config.Usage.Count(usage.Request{ClientID: partner.ID, Operation: "listDailyActivity", Status: 200, Duration: 3 * time.Millisecond, Charged: true})
	f.config.Usage.Count(usage.Request{ClientID: partner.ID, Operation: "listDailyActivity", Status: 429, Duration: time.Millisecond})
	for i := range 3 {
		f.config.Usage.AddError(usage.ErrorKind{ClientID: partner.ID, Authenticated: i > 0, Operation: "exchangeToken", Code: "invalid_grant",
			Reason: fmt.Sprintf("reason %d", i), Status: 400}, uuid.New(), uuid.Nil, netip.Prefix{})
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	f.config.Usage.Run(over) // writes what there is
	report := get[operatorapi.Usage](t, f, path+"/usage")
	if report.Total.Requests != 2 || report.Total.RateLimited != 1 || len(report.Operations) != 1 || len(report.Hours) != 1 || report.Total.P50Ms <= 0 {
		t.Errorf("usage: %+v", report)
	}
	if later := get[operatorapi.Usage](t, f, path+"/usage?since=2026-03-10T13:00:00Z"); later.Total.Requests != 0 || later.Hours == nil {
		t.Errorf("usage of later: %+v", later)
	}
	f.send(t, outgoing{Method: "GET", Target: path + "/usage?since=2026-02-30T13:00:00Z"}).Check(t, 400, "malformed-request", "no date")

	first := get[operatorapi.ClientErrorPage](t, f, path+"/errors?limit=2")
	if len(first.Data) != 2 || first.NextCursor == nil {
		t.Fatalf("errors: %+v", first)
	}
	second := get[operatorapi.ClientErrorPage](t, f, path+"/errors?limit=2&cursor="+*first.NextCursor)
	reasons := map[string]bool{}
	for _, one := range append(first.Data, second.Data...) {
		reasons[one.Reason] = one.Authenticated
	}
	if diff := cmp.Diff(map[string]bool{"reason 0": false, "reason 1": true, "reason 2": true}, reasons); diff != "" || second.NextCursor != nil {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
