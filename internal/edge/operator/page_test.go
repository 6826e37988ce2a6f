package operator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// All pages of a list are the list, each row once, in its order; a page that is full and the last one says so.
func TestPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.withEvent(t, "Told")
	for i := range 4 {
		f.ConnectNew(t, fmt.Sprintf("Partner %d", i))
		f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
			values ($1, $2, now(), 'x', 400, 'x', 'x', 1)`, partner.ID, i%2 == 0)
	}
	// Many of one instant, which only their ids tell apart.
	f.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, created_at)
		select $1, $2, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', (select created_at from webhook_events)
		from generate_series(1, 5)`, f.User.ID, partner.ID)
	f.DB.Exec(t, "update clients set created_at = (select min(created_at) from clients)")
	f.DB.Exec(t, "update audit_log set at = (select min(at) from audit_log)")

	for _, list := range []string{
		"/operator/v1/clients?", "/operator/v1/connections?", "/operator/v1/connections?user_id=" + f.User.ID.String() + "&",
		"/operator/v1/webhook-events?client_id=" + partner.ID.String() + "&state=pending&", "/operator/v1/webhook-events?", "/operator/v1/audit-log?",
		"/operator/v1/audit-log?user_id=" + f.User.ID.String() + "&actor=client&",
		"/operator/v1/clients/" + partner.ID.String() + "/errors?",
	} {
		type rows struct {
			Data       []map[string]any
			NextCursor *string `json:"next_cursor"`
		}
		whole := get[rows](t, f, list+"limit=1000")
		if len(whole.Data) < 4 || whole.NextCursor != nil {
			t.Errorf("%s: %d rows, next %v", list, len(whole.Data), whole.NextCursor)
		}
		for _, limit := range []int{1, 2, len(whole.Data)} {
			var all []map[string]any
			for cursor := ""; ; {
				page := get[rows](t, f, fmt.Sprintf("%slimit=%d%s", list, limit, cursor))
				all = append(all, page.Data...)
				if page.NextCursor == nil || len(all) > len(whole.Data) {
					break
				}
				cursor = "&cursor=" + *page.NextCursor
			}
			if diff := cmp.Diff(whole.Data, all); diff != "" {
				t.Errorf("%s of %d rows a page (-want +got):\n%s", list, limit, diff)
			}
		}
	}
}

// A cursor continues the list that it is of, with its filters, and nothing else; a query is as documented or malformed.
func TestBadCursorsAndQueries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.DB.Client(t)
	}
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, client_id) select client_id, 'ada', 'test', client_id from clients`)
	next := func(path string) string {
		t.Helper()
		cursor := get[operatorapi.ClientPage](t, f, path).NextCursor
		if cursor == nil {
			t.Fatalf("%s has no next page", path)
		}
		return *cursor
	}
	clients, log := next("/operator/v1/clients?limit=1"), next("/operator/v1/audit-log?limit=1&actor=ada")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	content, err := base64.RawURLEncoding.DecodeString(clients)
	if err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{
		"of another list":     "/operator/v1/clients?cursor=" + log,
		"of other filters":    "/operator/v1/audit-log?cursor=" + log,
		"of another filter":   "/operator/v1/audit-log?actor=adb&cursor=" + log,
		"of one more filter":  "/operator/v1/audit-log?actor=ada&action=test&cursor=" + log,
		"cut off":             "/operator/v1/clients?cursor=" + clients[:len(clients)-2],
		"longer":              "/operator/v1/clients?cursor=" + clients + "AAAA",
		"no base64":           "/operator/v1/clients?cursor=A",
		"nothing of JSON":     "/operator/v1/clients?cursor=" + encode("x"),
		"two":                 "/operator/v1/clients?cursor=" + encode(string(content)+string(content)),
		"one field more":      "/operator/v1/clients?cursor=" + encode(strings.Replace(string(content), "{", `{"x":1,`, 1)),
		"a year out of range": "/operator/v1/clients?cursor=" + encode(strings.Replace(string(content), "2026-", "12026-", 1)),
	} {
		f.send(t, outgoing{Method: "GET", Target: path}).Check(t, 400, "invalid-cursor", what)
	}
	f.send(t, outgoing{Method: "GET", Target: "/operator/v1/clients?limit=7&cursor=" + clients}).Check(t, 200, "", "another limit")
	for _, query := range []string{
		"limit=0", "limit=1001", "limit=01", "limit=1.0", "limit=1e2", "limit=-1", "limit=", "limit=1&limit=2", "limit=%31%00", "limit=٣",
		"cursor=", "cursor=%20", "cursor=" + strings.Repeat("A", 1025), "x=1", "limit=1;cursor=a", "%zz", "LIMIT=1",
	} {
		f.send(t, outgoing{Method: "GET", Target: "/operator/v1/clients?" + query}).Check(t, 400, "malformed-request", query)
	}
	for _, query := range []string{
		"since=2026-01-01", "since=2026-02-30T00:00:00Z", "until=2026-01-01T00:00:00%2B01:00", "user_id=x", "client_id=" + strings.ReplaceAll(uuid.NewString(), "-", ""),
		"actor=ada@example.com", "action=A", "actor=", "since=2026-01-01T00:00:00.1234567Z",
	} {
		f.send(t, outgoing{Method: "GET", Target: "/operator/v1/audit-log?" + query}).Check(t, 400, "malformed-request", query)
	}
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	for i, action := range []string{"client.updated", "client.disabled", "client.updated"} {
		f.DB.Exec(t, `insert into audit_log (subject, actor, action, client_id, at, detail) values ($1, $2, $3, $1, $4, '{"n": 1}')`,
			partner.ID, []string{"ada", "grace"}[i%2], action, start.AddDate(0, 0, i))
	}
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version, at)
		values ($1, 'client', 'connection.revoked', $1, $2, 7, $3)`, f.User.ID, partner.ID, start.AddDate(0, 0, 3))
	f.DB.Clock.Advance(4 * 24 * time.Hour) // what is listed has happened
	for query, want := range map[string][]int{
		"":                                  {0, 1, 2, 3},
		"actor=ada":                         {0, 2},
		"action=client.updated":             {0, 2},
		"actor=grace&action=client.updated": nil,
		"since=2026-03-11T12:00:00Z":        {1, 2, 3},
		"until=2026-03-11T12:00:00Z":        {0},
		"since=2026-03-11T12:00:00Z&until=2026-03-12T12:00:00.000001Z&actor=ada": {2},
		"user_id=" + f.User.ID.String():                                          {3},
		"client_id=" + partner.ID.String():                                       {0, 1, 2, 3},
		"client_id=" + uuid.NewString():                                          nil,
	} {
		var got []int
		page := get[operatorapi.AuditPage](t, f, "/operator/v1/audit-log?"+query)
		for _, event := range page.Data {
			if event.Action == "audit.exported" { // by this test
				continue
			}
			got = append(got, slices.IndexFunc([]string{"10", "11", "12", "13"}, func(day string) bool { return event.At[8:10] == day }))
		}
		if !slices.Equal(want, got) || page.Data == nil {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	last := get[operatorapi.AuditPage](t, f, "/operator/v1/audit-log?user_id="+f.User.ID.String()).Data[0]
	version := "7"
	want := operatorapi.AuditEvent{Id: last.Id, At: "2026-03-13T12:00:00.000Z", Actor: "client", Action: "connection.revoked", UserId: &f.User.ID,
		ClientId: &partner.ID, ConnectionVersion: &version, Detail: json.RawMessage("{}")}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A page of filters that hardly ever fit together ends before the whole log was looked at, and the next one goes on.
func TestAuditLogInParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, client_id, at)
		select $1, case when n % 2 = 0 or n = 49999 then 'ada' else 'grace' end, case when n % 2 = 0 then 'client.updated' else 'client.disabled' end, $1,
			$2::timestamptz + n * interval '1 second'
		from generate_series(1, 50000) n`, partner.ID, start)
	f.DB.Clock.Advance(24 * time.Hour)
	const path = "/operator/v1/audit-log?actor=ada&action=client.disabled"
	page := get[operatorapi.AuditPage](t, f, path)
	if len(page.Data) != 0 || page.Data == nil || page.NextCursor == nil {
		t.Fatalf("the first page has %d entries, next %t", len(page.Data), page.NextCursor != nil)
	}
	found := 0
	for page.NextCursor != nil {
		page = get[operatorapi.AuditPage](t, f, path+"&cursor="+*page.NextCursor)
		found += len(page.Data)
	}
	if found != 1 {
		t.Errorf("%d entries were found", found)
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	receiver, _ := edgetest.Receiver(t, nil)
	partner, _ := f.ConnectNew(t, "Walk Rewards")
	path := "/operator/v1/clients/" + partner.ID.String() + "/webhook"
	set := func(url string) operatorapi.WebhookWithSecret {
		t.Helper()
		got := f.send(t, outgoing{Method: "PUT", Target: path, Body: fmt.Sprintf(`{"url":%q}`, url)})
		got.Check(t, 200, "", "set")
		return edgetest.Decode[operatorapi.WebhookWithSecret](t, got)
	}
	first := set("https://walk.example/hook")
	if first.WebhookSecret == nil || first.Webhook.Url != "https://walk.example/hook" {
		t.Fatalf("the first URL: %+v", first.Webhook)
	}
	if again := set(receiver); again.WebhookSecret != nil || again.Webhook.Url != receiver {
		t.Errorf("another URL: %+v", again)
	}
	rotated := f.post(t, path+"/secret", "")
	rotated.Check(t, 200, "", "rotate")
	if second := edgetest.Decode[operatorapi.WebhookWithSecret](t, rotated); second.WebhookSecret == nil || *second.WebhookSecret == *first.WebhookSecret ||
		second.Webhook.RotatingUntil == nil {
		t.Errorf("rotated: %+v", second.Webhook)
	}
	for _, kind := range []string{"connection.revoked", "activity.updated"} {
		got := f.post(t, path+"/test", fmt.Sprintf(`{"type":%q}`, kind))
		got.Check(t, 200, "", "test")
		if sample := edgetest.Decode[operatorapi.WebhookSample](t, got); !sample.Accepted || *sample.Attempt.Status != 204 || sample.Attempt.Attempt != 0 {
			t.Errorf("a sample of %s: %+v", kind, sample)
		}
	}
	if err := f.config.OAuth.DisconnectUser(t.Context(), f.User.ID, partner.ID); err != nil {
		t.Fatal(err)
	}
	f.DB.Exec(t, `with e as (update webhook_events set state = 'failed', attempts = 1, queued = true returning user_id, event_id)
		insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, response)
		select user_id, event_id, 1, now(), 12, 500, '\x3c62ff' from e`)
	list := func(query string) []operatorapi.WebhookEvent {
		return get[operatorapi.WebhookEventPage](t, f, "/operator/v1/webhook-events"+query).Data
	}
	events := list("?state=failed&client_id=" + partner.ID.String())
	if len(events) != 1 || *events[0].Reason != "user_disconnected" || events[0].Datasets == nil || events[0].NextAttemptAt != nil {
		t.Fatalf("failed events: %+v", events)
	}
	if others := list("?state=pending"); others == nil || len(others) != 0 {
		t.Errorf("pending events: %+v", others)
	}
	event := "/operator/v1/webhook-events/" + events[0].WebhookId
	detail := get[operatorapi.WebhookEventDetail](t, f, event)
	if len(detail.Log) != 1 || detail.Log[0].Response != "<b\uFFFD" || *detail.Log[0].Status != 500 || !strings.Contains(detail.Body, events[0].GrantId.String()) {
		t.Errorf("the event: %+v", detail)
	}
	f.send(t, outgoing{Method: "POST", Target: event + "/replay", Header: as(edgetest.AdaToken)}).Check(t, 200, "", "replay")
	if again := list("?state=pending"); len(again) != 1 || again[0].NextAttemptAt == nil || again[0].Attempts != 1 {
		t.Errorf("after the replay: %+v", again)
	}
	f.send(t, outgoing{Method: "DELETE", Target: path}).Check(t, 204, "", "remove")
	f.send(t, outgoing{Method: "GET", Target: path}).Check(t, 404, "no-webhook", "none")
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from audit_log where actor = 'ada' and action = 'webhook.replayed'"); n != 1 {
		t.Errorf("%d replays by ada in the audit log, want 1", n)
	}
	if strings.Contains(f.Log.String(), *first.WebhookSecret) {
		t.Error("a signing secret is in the log")
	}
}

// The operator's own webhook is set, read, paused, tested, listed and removed as a client's is, and hears of connections.
func TestOperatorsWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	receiver, _ := edgetest.Receiver(t, nil)
	const id = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	const path = "/operator/v1/clients/" + id + "/webhook"
	if id != webhook.Operator.String() {
		t.Fatalf("the operator is %s", webhook.Operator)
	}
	f.send(t, outgoing{Method: "GET", Target: path}).Check(t, 404, "no-webhook", "none")
	got := f.send(t, outgoing{Method: "PUT", Target: path, Body: fmt.Sprintf(`{"url":%q}`, receiver)})
	got.Check(t, 200, "", "set")
	if set := edgetest.Decode[operatorapi.WebhookWithSecret](t, got); set.WebhookSecret == nil || set.ClientId != webhook.Operator {
		t.Errorf("set: %+v", set.Webhook)
	}
	partner, tokens := f.ConnectNew(t, "Walk Rewards")
	if err := f.config.OAuth.DisconnectByOperator(t.Context(), f.User.ID, partner.ID); err != nil {
		t.Fatal(err)
	}
	for _, act := range []string{"/pause", "/resume", "/secret"} {
		f.post(t, path+act, "").Check(t, 200, "", act)
	}
	for kind, status := range map[string]int{"connection.authorized": 200, "connection.ended": 200, "connection.revoked": 422} {
		got := f.post(t, path+"/test", fmt.Sprintf(`{"type":%q}`, kind))
		if got.Status != status || status == 422 && !strings.Contains(got.Body, `"/type"`) {
			t.Errorf("a sample of %s: %d %s", kind, got.Status, got.Body)
		}
	}
	if preview := get[operatorapi.ClientPreview](t, f, "/operator/v1/clients/"+id+"/preview"); preview.WaitingEvents != 2 || preview.Name != "operator" {
		t.Errorf("preview: %+v", preview)
	}
	events := get[operatorapi.WebhookEventPage](t, f, "/operator/v1/webhook-events?client_id="+id).Data
	if len(events) != 2 || *events[0].AboutClientId != partner.ID || events[0].Type != "connection.authorized" || len(events[0].Datasets) == 0 ||
		events[1].Type != "connection.ended" || *events[1].Reason != "operator_disconnected" || events[1].GrantId != tokens.GrantID || events[1].From != nil {
		t.Errorf("events: %+v", events)
	}
	other, _ := f.ConnectNew(t, "Ride Club")
	ofGrant := func(when string) {
		t.Helper()
		for client, want := range map[string][]operatorapi.WebhookEvent{"": events, "client_id=" + id + "&": events, "client_id=" + other.ID.String() + "&": {}} {
			of := get[operatorapi.WebhookEventPage](t, f, "/operator/v1/webhook-events?"+client+"grant_id="+tokens.GrantID.String()).Data
			if diff := cmp.Diff(want, of); diff != "" {
				t.Errorf("%s, %sevents about a grant (-want +got):\n%s", when, client, diff)
			}
		}
	}
	ofGrant("the user is there")
	if _, err := f.config.Accounts.DeleteUser(t.Context(), f.User.ID); err != nil {
		t.Fatal(err)
	}
	ofGrant("the user is deleted")
	detail := get[operatorapi.WebhookEventDetail](t, f, "/operator/v1/webhook-events/"+events[1].WebhookId)
	if !strings.Contains(detail.Body, f.User.ID.String()) || !strings.Contains(detail.Body, partner.ID.String()) {
		t.Errorf("the body is %s", detail.Body)
	}
	if found := get[operatorapi.FoundList](t, f, "/operator/v1/find?text="+events[1].WebhookId).Data; len(found) != 1 || found[0].Name != "operator" {
		t.Errorf("found: %+v", found)
	}
	f.send(t, outgoing{Method: "DELETE", Target: path}).Check(t, 204, "", "remove")
	f.post(t, "/operator/v1/webhook-events/"+events[1].WebhookId+"/replay", "").Check(t, 409, "not-replayable", "removed")
	f.send(t, outgoing{Method: "GET", Target: "/operator/v1/clients/" + id}).Check(t, 404, "client-not-found", "it is no client")
}
