package console

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestWebhookEndpoint(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/webhooks"
	v.shows(v.Get(path), "Ride Club", "The partner has no webhook", "The list is empty.")
	for _, act := range []string{"/secret", "/remove", "/test", "/replay", "/pause", "/resume"} {
		v.fails(v.Get(path+act), http.StatusConflict, "The partner has no webhook")
		v.fails(v.Post(path+act), http.StatusConflict, "The partner has no webhook")
	}
	for _, bad := range []string{"", "http://ride.example/", "https://me:secret@ride.example/", "https://ride.example/#x"} {
		page := v.Post(path+"/address", "url", bad)
		if page.StatusCode != http.StatusUnprocessableEntity || page.Find("#p-url").Length() != 1 || page.Find("#f-url").AttrOr("value", "") != bad {
			t.Errorf("%q: status %d", bad, page.StatusCode)
		}
	}
	set := v.Post(path+"/address", "url", "https://ride.example/hooks")
	v.shows(set, "The webhook is set", "Ride Club", "Webhook secret")
	if secret := set.Find(".secrets pre").Text(); !strings.HasPrefix(secret, "whsec_") || strings.Contains(v.Get(path).Source, secret) {
		t.Error("the secret is not shown once")
	}
	v.goes(v.Post(path+"/address", "url", "https://ride.example/other"), path+"?done=webhook_set")
	v.shows(v.Get(path+"?done=webhook_set"), "Ride Club", "The address is set.", "https://ride.example/other")

	v.shows(v.Get(path+"/secret"), "Replace the webhook secret of Ride Club?")
	v.shows(v.Post(path+"/secret"), "The webhook secret is replaced", "The previous secret also signs until 2026-03-11 12:34")
	twice := v.Post(path + "/secret")
	v.shows(twice, "Replace the webhook secret of Ride Club?", "replaced after you opened this page", "A previous secret signs until 2026-03-11")
	if twice.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("the button was pressed twice: status %d", twice.StatusCode)
	}
	v.shows(v.Get(path+"/secret"), "Replace the webhook secret of Ride Club?", "A previous secret signs until 2026-03-11")

	v.shows(v.Get(path+"/pause"), "Pause the webhook of Ride Club?", "four days", "Waiting events: 0.")
	v.goes(v.Post(path+"/pause"), path+"?done=webhook_paused")
	for _, page := range []string{path + "?done=webhook_paused", pathOf(partner.ID)} {
		v.shows(v.Get(page), "Ride Club", "Paused since 2026-03-10 12:34")
	}
	v.shows(v.Get(path+"/resume"), "Resume the webhook of Ride Club?")
	v.goes(v.Post(path+"/resume"), path+"?done=webhook_resumed")
	if text := v.Get(path).Source; strings.Contains(text, "Paused since") || strings.Contains(text, path+"/resume") {
		t.Error("the webhook is still paused")
	}
	f.DB.Exec(t, "update webhook_endpoints set stopped_at = connect_now()")
	v.shows(v.Get(path), "Ride Club", "Nothing has been sent since 2026-03-10 12:34", "410 Gone")
	v.fails(v.Get(path+"/replay"), http.StatusConflict, "The webhook was stopped")
	f.waiting(t, partner.ID, 2)
	v.shows(v.Get(path+"/remove"), "Remove the webhook of Ride Club?", "dropped unsent: 2.")
	v.goes(v.Post(path+"/remove"), path+"?done=webhook_removed")
	v.shows(v.Get(path+"?done=webhook_removed"), "Ride Club", "The webhook is removed.", "The partner has no webhook")
	f.acts(t, partner.ID, "ada webhook.created", "ada webhook.url_set", "ada webhook.secret_rotated", "ada webhook.paused", "ada webhook.resumed", "ada webhook.removed")
}

// If the button for the first address is pressed twice, the browser drops the answer with the secret. The other one says that there was one.
func TestFirstWebhookTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	f.config.Changes = portal.Changes{Webhooks: true}
	for name, who := range map[string]struct {
		visitor
		base string
	}{
		"an operator": {f.signedIn(t, edgetest.AdaToken), pathOf(partner.ID)},
		"an engineer": {f.engineer(t, f.portal(t), partner.ID), portal.Path + "/" + partner.ID.String()},
	} {
		v, path := who.visitor, who.base+"/webhooks"
		form := formOf(v.Get(path+"/address"), "url", "https://ride.example/hooks")
		v.shows(v.Post(path+"/address", form...), "The webhook is set", "Webhook secret")
		v.goes(v.Post(path+"/address", form...), path+"?done=webhook_exists")
		v.shows(v.Get(path+"?done=webhook_exists"), partner.Name, "The address is set.", "the first answer showed its secret")
		changed := formOf(v.Get(path+"/address"), "url", "https://ride.example/other")
		for range 2 {
			v.goes(v.Post(path+"/address", changed...), path+"?done=webhook_set")
		}
		if err := f.Webhooks.RemoveEndpoint(t.Context(), partner.ID); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestWebhookEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	other := f.DB.Client(t)
	f.events(t, partner.ID, "failed", 70)
	f.events(t, partner.ID, "delivered", 1)
	f.events(t, other.ID, "failed", 1)
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/webhooks"
	if n := v.Get(path).Find("tbody tr").Length(); n != rowsPerPage {
		t.Errorf("%d rows on the first page of all", n)
	}
	first := v.Get(path + "?state=failed")
	next := first.Find("a[rel=next]").AttrOr("href", "")
	second := v.Get(next)
	if a, b := first.Find("tbody tr").Length(), second.Find("tbody tr").Length(); a != rowsPerPage || b != 70-rowsPerPage || second.Find("a[rel=next]").Length() != 0 {
		t.Errorf("%d and %d rows", a, b)
	}
	if newest := first.Find("tbody time").First().Text(); newest != "2026-03-10 12:33:59" {
		t.Errorf("the first is of %s", newest)
	}
	v.fails(v.Get(strings.Replace(next, "failed", "pending", 1)), http.StatusBadRequest, "This page of the list does not exist")
	v.fails(v.Get(path+"?state=lost"), http.StatusBadRequest, "This form cannot be read")
	v.shows(v.Get(path+"?state=pending"), "Ride Club", "The list is empty.")

	// One event: its attempts, the latest first, with what was answered as text, and its body.
	id := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events where client_id = $1 and state = 'failed' limit 1", partner.ID)
	f.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
		select user_id, event_id, 1, connect_now(), 1234, null::int, 'connection refused', ''::bytea from webhook_events where event_id = $1
		union all select user_id, event_id, 2, connect_now(), 12, 500, null, ('\xff3c623e'::bytea || convert_to(repeat('x', 2000), 'UTF8'))
		from webhook_events where event_id = $1`, id)
	page := v.Get(path + "/" + id.String())
	event, err := f.config.Webhooks.Event(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	body, err := event.Body()
	if err != nil {
		t.Fatal(err)
	}
	v.shows(page, "Ride Club", event.MessageID(), "connection refused", "no answer", "1.2 s", "500")
	if got := page.Find("#body + pre").Text(); got != string(body) {
		t.Errorf("the body is %s, want %s", got, body)
	}
	attempts := page.Find("table tbody th")
	if attempts.Length() != 2 || attempts.First().Text() != "2" {
		t.Errorf("the attempts are %s", attempts.Text())
	}
	if answer := page.Find("td pre").First().Text(); !strings.HasPrefix(answer, "\uFFFD<b>xxx") || len(answer) > 1100 || !strings.HasSuffix(answer, "…") {
		t.Errorf("the answer is %d bytes: %.20q", len(answer), answer)
	}
	foreign := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events where client_id = $1", other.ID)
	for _, none := range []string{foreign.String(), uuid.NewString()} {
		v.fails(v.Get(path+"/"+none), http.StatusNotFound, "There is no such event")
		v.fails(v.Post(path+"/"+none+"/replay"), http.StatusNotFound, "There is no such event")
	}
	v.fails(v.Get(path+"/x"), http.StatusNotFound, "There is no such page")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	f.events(t, partner.ID, "failed", 1)
	id := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events")
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/webhooks"
	one := path + "/" + id.String()
	v.shows(v.Get(one+"/replay"), "Send this event to Ride Club again?", "There have been 0 attempts so far.")
	v.fails(v.Post(one+"/replay"), http.StatusConflict, "The partner has no webhook")
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://ride.example/"); err != nil {
		t.Fatal(err)
	}
	v.goes(v.Post(one+"/replay"), one+"?done=event_replayed")
	v.shows(v.Get(one+"?done=event_replayed"), "Ride Club", "The event is sent again.", "pending")
	f.DB.Exec(t, "update webhook_events set state = 'failed'")
	f.DB.Exec(t, "update webhook_endpoints set paused_at = now()")
	v.shows(v.Get(one+"/replay"), "Send this event to Ride Club again?", "The webhook is paused or Ride Club is disabled, so it waits")
	v.goes(v.Post(one+"/replay"), one+"?done=event_waits")
	v.shows(v.Get(one+"?done=event_waits"), "Ride Club", "The event waits until the webhook is resumed, and the partner is enabled.", "pending")
	f.DB.Exec(t, "update webhook_endpoints set paused_at = null")

	// All failed ones, in parts.
	f.events(t, partner.ID, "failed", replayPart+20)
	v.shows(v.Get(path+"/replay"), "Send the failed events of Ride Club again?", "Failed events: 520.", "The oldest 500 are sent first", "Send 500 again")
	v.goes(v.Post(path+"/replay"), path+"/replay?queued=500")
	v.shows(v.Get(path+"/replay?queued=500"), "Send the failed events of Ride Club again?", "queued to be sent: 500.", "Failed events left: 20.", "Send them again")
	v.goes(v.Post(path+"/replay"), path+"/replay?queued=20")
	v.shows(v.Get(path+"/replay?queued=20"), "Send the failed events of Ride Club again?", "queued to be sent: 20.", "No failed event is left.")
	if n := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where actor = 'ada' and action = 'webhook.replayed'"); n != replayPart+22 {
		t.Errorf("%d entries in the audit log", n)
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*) from webhook_events where state = 'pending'"); n != replayPart+21 {
		t.Errorf("%d events wait", n)
	}
}

// ends ends the connection to the database before a statement reads webhooks after a commit.
type ends struct {
	db        *pgtest.DB
	committed atomic.Bool
}

func (e *ends) TraceQueryStart(ctx context.Context, conn *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if query.SQL == "commit" {
		e.committed.Store(true)
	}
	if e.committed.Load() && strings.HasPrefix(query.SQL, "-- name: ListWebhookTargets ") {
		_, _ = e.db.Pool.Exec(ctx, "select pg_terminate_backend($1, 60000)", conn.PgConn().PID())
	}
	return ctx
}

func (*ends) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The page shows the new secret of a webhook also if the database goes away after it was made: nobody would have the secret otherwise, and another
// one would end that of the partner.
func TestWebhookSecretIsShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	if _, err := f.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://ride.example/"); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), f.DB.URL, postgres.WithClock(f.DB.Clock), postgres.WithTracer(&ends{db: f.DB}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f.config.Webhooks = webhook.New(pool, f.Keys, webhook.Settings{Limits: wait.Patient})
	f.serve(t)
	v := f.signedIn(t, edgetest.AdaToken)
	page := v.Post(pathOf(partner.ID)+"/webhooks/secret", "older", "")
	if text := page.Find("main").Text(); !strings.Contains(text, "whsec_") || !strings.Contains(text, "2026-03-11 12:34") {
		t.Errorf("status %d: %s", page.StatusCode, text)
	}
}

func TestWebhookTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	status := http.StatusOK
	address, sent := edgetest.Receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`<b>seen</b>`))
	})
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, address); err != nil {
		t.Fatal(err)
	}
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/webhooks/test"
	v.shows(v.Get(path), "Send a test to Ride Club", address)
	for i, kind := range eventTypes {
		v.shows(v.Post(path, "type", kind), "Send a test to Ride Club", "The receiver accepted it.", kind, "200", "<b>seen</b>")
		if all := sent(); len(all) != i+1 || !strings.Contains(all[i], `"`+kind+`"`) {
			t.Errorf("it got %q", all)
		}
	}
	status = http.StatusTeapot
	v.shows(v.Post(path, "type", eventTypes[0]), "Send a test to Ride Club", "The receiver did not accept it.", "418")
	v.fails(v.Post(path, "type", "goal.reached"), http.StatusBadRequest, "This form cannot be read")
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://127.0.0.1:1/"); err != nil {
		t.Fatal(err)
	}
	v.shows(v.Post(path, "type", eventTypes[0]), "Send a test to Ride Club", "The receiver did not accept it.", "no answer")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
		select $1, i <> 7, $2::timestamptz - i * interval '1 minute', 'requestToken', 400, 'invalid_grant', 'code has expired', 1000 + i
		from generate_series(1, 60) i`, partner.ID, start)
	v := f.signedIn(t, edgetest.GraceToken)
	path := pathOf(partner.ID) + "/refused"
	first := v.Get(path)
	v.shows(first, "Ride Club", "2026-03-10 12:33:00", "400 invalid_grant", "code has expired", "1,001")
	const rows = "table[aria-labelledby=refused] tbody "
	if first.Find(rows+"tr").Length() != rowsPerPage || !strings.Contains(first.Find(rows+"tr:nth-child(7)").Text(), "without proof") || first.Find(rows+".badge").Length() != 1 {
		t.Error("not who named the partner without proof is marked")
	}
	if own := first.Find(".kinds tbody tr:first-child"); first.Find(".kinds tbody tr").Length() != 2 || !strings.Contains(own.Text(), "all") ||
		v.Get(path+own.Find("a").AttrOr("href", "")).Find("tbody tr").Length() != rowsPerPage {
		t.Errorf("kinds: %s", first.Find(".kinds").Text())
	}
	f.DB.Exec(t, "insert into client_error_counts values ($1, true, $2, 'requestToken', 400, 'invalid_grant', 5000)", partner.ID, start)
	v.shows(v.Get(path), "Ride Club", "65,823", "60,823 since 2026-03-10 11:34:00")
	if n := v.Get(first.Find("a[rel=next]").AttrOr("href", "")).Find("tbody tr").Length(); n != 60-rowsPerPage {
		t.Errorf("%d rows on the second page", n)
	}
	v.shows(v.Get(pathOf(f.DB.Client(t).ID)+"/refused"), pgtest.Value[string](t, f.DB, "select name from clients order by created_at desc limit 1"), "The list is empty.")
	request := uuid.New()
	f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, request_ids)
		values ($1, true, $2, 'readDailySteps', 403, 'insufficient_scope', 'the connection lacks the scope', 1, $3)`, partner.ID, start, []uuid.UUID{request})
	for query, rows := range map[string]int{
		"request=" + request.String(): 1, "request=" + uuid.NewString(): 0, "request=x": 0, "status=403": 1, "status=x": 0, "status=0": 0, "status=99999999999": 0,
		"operation=readDailySteps": 1, "operation=requestToken&status=403": 0, "code=insufficient_scope": 1, "code=x": 0,
	} {
		got := v.Get(path + "?" + query)
		if n := got.Find("tbody tr").Length(); got.StatusCode != http.StatusOK || n != rows {
			t.Errorf("%s: status %d, %d rows", query, got.StatusCode, n)
		}
	}
	if to := v.Get(toFind(request.String())).Header.Get("Location"); to != path+"?request="+request.String() {
		t.Errorf("the request's id leads to %q", to)
	}
	if help := v.Get(path+"?status=403").Find("tbody a").AttrOr("href", ""); help != f.config.CodesPage+"#insufficient_scope" {
		t.Errorf("the code leads to %q", help)
	}
	v.fails(v.Get(path+"?state=x"), http.StatusBadRequest, "This form cannot be read")
	var position page.Key
	if list, err := f.config.Usage.Errors(t.Context(), partner.ID, usage.ErrorFilter{}, position, 1); err != nil || len(list) != 1 {
		t.Errorf("%d, %v", len(list), err)
	}
}

// A receiver's answer cannot hide or turn round what stands beside it.
func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\"a\": 1}\n\tnä€":            "{\"a\": 1}\n\tnä€",
		"\x1b[31mred\r\x00":            "␛[31mred␍␀",
		"back\x7f\u009b31m":            "back␡⟨U+009B⟩31m",
		"moc\u202emoc.elpmaxe\u2066a":  "moc⟨U+202E⟩moc.elpmaxe⟨U+2066⟩a",
		"\ufeffzero\u200bwidth\u00ad.": "⟨U+FEFF⟩zero⟨U+200B⟩width⟨U+00AD⟩.",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
