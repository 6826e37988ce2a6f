package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
	sdk "connect.invalid/connect-go/webhook"
)

// failedEvent writes an event that was given up after two attempts.
func failedEvent(t *testing.T, db *pgtest.DB, client uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.MustParse("4f1f7d3e-52a4-4c8e-9c6c-7b0a8f0d9f21")
	db.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		values ($1, $1, $2, 'connection.revoked', '8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55', 3, 'user_disconnected', '2026-11-21T10:00:00.5Z', 'failed', 2, true)`, id, client)
	db.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response) values
		($1, $1, 1, '2026-11-21T10:00:01Z', 5000, null, 'no complete response within 5 seconds', null),
		($1, $1, 2, '2026-11-21T10:00:11Z', 31, 500, null, E'out of\x1b[31m space\nline two')`, id)
	return id
}

func pendingEvent(t *testing.T, db *pgtest.DB, client uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.New()
	db.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date,
			created_at, due_at)
		values ($1, $1, $2, 'activity.updated', gen_random_uuid(), 1, 5, '2026-11-20', '2026-11-21', '2026-11-21T11:00:00Z', '2031-11-21T11:05:00Z')`,
		id, client)
	return id
}

func messageOf(id uuid.UUID) string { return "msg_" + strings.ReplaceAll(id.String(), "-", "") }

func TestWebhookLog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	partner, other := db.Client(t), db.Client(t)
	failed, pending := failedEvent(t, db, partner.ID), pendingEvent(t, db, other.ID)

	ids := func(args ...string) (list []string) {
		t.Helper()
		for _, event := range succeedJSON[[]operatorapi.WebhookEvent](t, env(db), "", append([]string{"webhook", "list"}, args...)...) {
			list = append(list, event.WebhookId)
		}
		return list
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, []string{messageOf(failed), messageOf(pending)}},
		{[]string{"--client", partner.ID.String()}, []string{messageOf(failed)}},
		{[]string{"--state", "pending"}, []string{messageOf(pending)}},
		{[]string{"--client", partner.ID.String(), "--state", "pending"}, nil},
		{[]string{"--state", "delivered"}, nil},
	} {
		if diff := cmp.Diff(test.want, ids(test.args...)); diff != "" {
			t.Errorf("list %q (-want +got):\n%s", test.args, diff)
		}
	}
	if text := succeed(t, env(db), "", "webhook", "list", "--state", "delivered", "--output", "json"); text != "[]\n" {
		t.Errorf("an empty list: %q", text)
	}
	table := succeed(t, env(db), "", "webhook", "list")
	for _, cell := range []string{"user_disconnected", "daily_steps cycling_activities  2026-11-20  2026-11-21", "2031-11-21T11:05:00.000Z"} {
		if strings.Count(table, "\n") != 3 || !strings.Contains(table, cell) {
			t.Errorf("the table does not hold %q:\n%s", cell, table)
		}
	}

	reason, status := "user_disconnected", 500
	event := operatorapi.WebhookEvent{
		WebhookId: messageOf(failed), ClientId: partner.ID, Type: "connection.revoked",
		GrantId: uuid.MustParse("8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55"), Reason: &reason, ConnectionVersion: "3",
		Datasets: []operatorapi.WebhookEventDatasets{}, State: operatorapi.WebhookStateFailed, Attempts: 2, CreatedAt: "2026-11-21T10:00:00.500Z",
	}
	want := operatorapi.WebhookEventDetail{
		WebhookId: event.WebhookId, ClientId: partner.ID, Type: event.Type, State: event.State,
		Event: event,
		Log: []operatorapi.WebhookAttempt{
			{
				Attempt: 1, At: "2026-11-21T10:00:01.000Z",
				WebhookTimestamp: 1795255201, DurationMs: 5000, Fault: "no complete response within 5 seconds",
			},
			{
				Attempt: 2, At: "2026-11-21T10:00:11.000Z",
				WebhookTimestamp: 1795255211, DurationMs: 31, Status: &status, Response: "out of\x1b[31m space\nline two",
			},
		},
	}
	got := succeedJSON[operatorapi.WebhookEventDetail](t, env(db), "", "webhook", "show", messageOf(failed))
	var body struct{ Timestamp string }
	if err := json.Unmarshal([]byte(got.Body), &body); err != nil || body.Timestamp != "2026-11-21T10:00:00.500Z" {
		t.Errorf("body %s, %v", got.Body, err)
	}
	got.Body = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("show (-want +got):\n%s", diff)
	}
	text := succeed(t, env(db), "", "webhook", "show", failed.String()) // its UUID names it as well
	if !strings.Contains(text, "Response to attempt 2:\nout of [31m space\nline two\n") || strings.Contains(text, "\x1b") {
		t.Errorf("show, for people:\n%q", text)
	}
}

func TestWebhookListIsWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, created_at, queued)
		select gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', 'delivered', '2026-11-21T10:00:00Z', true
		from generate_series(1, 2000)`, db.Client(t).ID)
	seen := map[string]bool{}
	for _, event := range succeedJSON[[]operatorapi.WebhookEvent](t, env(db), "", "webhook", "list") {
		seen[event.WebhookId] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d events, want 2000", len(seen))
	}
}

func TestWebhookReplay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	partner := db.Client(t)
	id := failedEvent(t, db, partner.ID)
	refuse(t, env(db), statusFailed, []string{"has no webhook"}, "webhook", "replay", id.String())
	succeed(t, allSettings(t, db), "", "client", "webhook", "set", partner.ID.String(), hook)
	if got := succeedJSON[operatorapi.WebhookEvent](t, env(db), "", "webhook", "replay", messageOf(id)); got.State != operatorapi.WebhookStatePending || got.WebhookId != messageOf(id) {
		t.Errorf("replayed: %+v", got)
	}
	if text := succeed(t, env(db), "", "webhook", "replay", messageOf(id)); !strings.Contains(text, "webhook show "+messageOf(id)) {
		t.Errorf("replay, for people: %q", text)
	}
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	good, partner, unknown := allSettings(t, db), db.Client(t).ID.String(), uuid.NewString()
	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"list of unknown client": {[]string{"webhook", "list", "--client", unknown}, statusFailed, "no such client"},
		"list of unknown state":  {[]string{"webhook", "list", "--state", "lost"}, statusUsage, "--state"},
		"show of unknown":        {[]string{"webhook", "show", unknown}, statusFailed, "no such event"},
		"show of no id":          {[]string{"webhook", "show", "msg_x"}, statusUsage, "<id>: must"},
		"replay of unknown":      {[]string{"webhook", "replay", unknown}, statusFailed, "no such event"},
		"replay of no id":        {[]string{"webhook", "replay", "x"}, statusUsage, "<id>: must"},
		"test of unknown":        {[]string{"webhook", "test", "--client", unknown}, statusFailed, "no such client"},
		"test without webhook":   {[]string{"webhook", "test", "--client", partner}, statusFailed, "has no webhook"},
		"test of unknown type":   {[]string{"webhook", "test", "--client", partner, "--type", "goal.reached"}, statusUsage, "--type: must"},
		"test with bad networks": {[]string{"webhook", "test", "--client", partner, "--webhook-allow-cidrs", "all"}, statusUsage, "CONNECT_WEBHOOK_ALLOW_CIDRS"},
		"test without keyset":    {[]string{"webhook", "test", "--client", partner, "--keyset-file", ""}, statusUsage, "CONNECT_KEYSET_FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, good, tt.status, []string{tt.says}, tt.args...)
		})
	}
}

// A sample is genuine for the receiver, which is reached by a process of its own: that trusts the receiver's
// certificate.
func TestWebhookSample(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	type received struct {
		header http.Header
		body   []byte
	}
	var status atomic.Int64
	status.Store(http.StatusOK)
	calls := make(chan received, 1)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls <- received{r.Header, body}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "thank you")
	}))
	t.Cleanup(receiver.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})
	if err := os.WriteFile(roots, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	good, id := allSettings(t, db), db.Client(t).ID.String()
	secret := succeedJSON[operatorapi.WebhookWithSecret](t, good, "", "client", "webhook", "set", id, receiver.URL+"/hook").WebhookSecret

	sample := func(args ...string) (outcome, operatorapi.WebhookSample) {
		t.Helper()
		var got outcome
		var stdout, stderr strings.Builder
		command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"webhook", "test", "--client", id}, args...)...)
		command.Env = with(good, asProgram+"=1", "SSL_CERT_FILE="+roots, "SSL_CERT_DIR=", "CONNECT_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8")
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); err != nil && command.ProcessState == nil {
			t.Fatal(err)
		}
		got = outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
		var row operatorapi.WebhookSample
		if len(args) > 0 && args[len(args)-1] == "json" {
			checkSchema(t, answered{"WebhookSample", args}, got.stdout)
			if err := json.Unmarshal([]byte(got.stdout), &row); err != nil {
				t.Fatalf("%v in %+v", err, got)
			}
		}
		return got, row
	}

	got, row := sample("--output", "json")
	if got.status != statusDone || !row.Delivered || *row.Attempt.Status != 200 || row.Attempt.Response != "thank you" {
		t.Fatalf("%+v, %+v", got, row)
	}
	first := <-calls
	event, err := sdk.Verify(*secret, first.header, first.body)
	if _, is := event.(sdk.ConnectionRevoked); err != nil || !is {
		t.Errorf("received %+v, %v", event, err)
	}
	if got, _ := sample("--type", "activity.updated"); got.status != statusDone || !strings.Contains(got.stdout, "answered  200 after ") ||
		!strings.Contains(got.stdout, "thank you") {
		t.Errorf("%+v", got)
	}
	second := <-calls
	event, err = sdk.Verify(*secret, second.header, second.body)
	if _, is := event.(sdk.ActivityUpdated); err != nil || !is {
		t.Errorf("received %+v, %v", event, err)
	}

	status.Store(http.StatusTeapot)
	got, row = sample("--output", "json")
	if got.status != statusFailed || row.Delivered || *row.Attempt.Status != http.StatusTeapot || !strings.Contains(got.stderr, "not delivered: the receiver answered 418") {
		t.Errorf("%+v, %+v", got, row)
	}
	<-calls
	receiver.Close()
	got, _ = sample()
	checkRefusal(t, got, statusFailed, []string{"not delivered: cannot connect"})
	if n := pgtest.Value[int64](t, db, "select count(*) from webhook_events"); n != 0 {
		t.Errorf("%d samples are in the log", n)
	}
	// Without the setting nothing inside the machine is reached.
	refuse(t, good, statusFailed, []string{"not delivered: the address is not allowed"}, "webhook", "test", "--client", id)
}
