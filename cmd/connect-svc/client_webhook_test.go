package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

const hook = "https://partner.example/webhooks?tenant=7"

// With a webhook, create shows both secrets once; show never does.
func TestClientWithWebhook(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := allSettings(t, db)
	created := succeedJSON[operatorapi.CreatedClient](t, env, "", append(slices.Clone(walkRewards), "--webhook-url", hook)...)
	if created.WebhookSecret == nil || !strings.HasPrefix(*created.WebhookSecret, "whsec_") || created.ClientSecret == "" {
		t.Fatalf("secrets: %+v", created)
	}
	id := created.ClientId.String()
	shown := succeedJSON[operatorapi.Client](t, env, "", "client", "show", id)
	if shown.Webhook == nil || shown.Webhook.Url != hook || shown.Webhook.StoppedAt != nil || shown.Webhook.RotatingUntil != nil || shown.WebhookSecret != nil {
		t.Errorf("show: %+v", shown)
	}
	got := call(t, env, "", append(slices.Clone(walkRewards), "--name", "Ride Club", "--webhook-url", hook)...)
	if text := got.stdout; strings.Count(text, "whsec_") != 1 || strings.Count(text, "svci_") != 1 || !strings.Contains(text, "both secrets") {
		t.Errorf("create, for people:\n%s", text)
	}
	if strings.Contains(got.stderr, "whsec_") || !strings.Contains(got.stderr, "CONNECT_WEBHOOK_SECRET=") {
		t.Errorf("next steps with a webhook:\n%s", got.stderr)
	}
	without := succeed(t, env, "", append(slices.Clone(walkRewards), "--name", "Swim Club", "--output", "json")...)
	if strings.Contains(without, "webhook_secret") {
		t.Errorf("without a webhook: %s", without)
	}

	db.Exec(t, "update webhook_endpoints set stopped_at = '2026-11-21T10:00:00Z' where client_id = $1", created.ClientId)
	if got := succeedJSON[operatorapi.Client](t, env, "", "client", "show", id); got.Webhook.StoppedAt == nil {
		t.Errorf("stopped: %+v", got.Webhook)
	}
	if text := succeed(t, env, "", "client", "show", id); !strings.Contains(text, "because its receiver answered 410") {
		t.Errorf("stopped, for people:\n%s", text)
	}
}

func TestClientUpdateOfTheWebhook(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env, id := allSettings(t, db), db.Client(t).ID.String()
	update := func(args ...string) operatorapi.Client {
		t.Helper()
		return succeedJSON[operatorapi.Client](t, env, "", append([]string{"client", "update", id}, args...)...)
	}
	if got := update("--webhook-url", hook); got.Webhook == nil || got.WebhookSecret == nil || !strings.HasPrefix(*got.WebhookSecret, "whsec_") {
		t.Errorf("the first time: %+v", got)
	}
	if got := update("--webhook-url", hook+"8", "--burst", "7"); got.Webhook.Url != hook+"8" || got.WebhookSecret != nil || got.Burst != 7 {
		t.Errorf("another URL: %+v, %+v", got, got.Webhook)
	}
	if got := update("--burst", "8"); got.Webhook == nil {
		t.Error("what is not named did not stay")
	}
	for range 2 { // there is nothing to take away the second time
		if got := update("--webhook-url", ""); got.Webhook != nil {
			t.Errorf("taken away: %+v", got.Webhook)
		}
	}
}

func TestClientWebhook(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env, id := allSettings(t, db), db.Client(t).ID.String()
	act := func(args ...string) operatorapi.WebhookWithSecret {
		t.Helper()
		return succeedJSON[operatorapi.WebhookWithSecret](t, env, "", append([]string{"client", "webhook"}, args...)...)
	}
	first := act("set", id, hook)
	if first.ClientId.String() != id || first.Webhook.Url != hook || !strings.HasPrefix(*first.WebhookSecret, "whsec_") {
		t.Fatalf("set: %+v", first)
	}
	if moved := act("set", id, hook+"8"); moved.WebhookSecret != nil || moved.Webhook.Url != hook+"8" {
		t.Errorf("set again: %+v", moved)
	}
	rotated := act("rotate-secret", id)
	if !strings.HasPrefix(*rotated.WebhookSecret, "whsec_") || *rotated.WebhookSecret == *first.WebhookSecret ||
		time.Until(instantOf(t, rotated.Webhook.RotatingUntil)) < 23*time.Hour {
		t.Errorf("rotated: %+v, %+v", rotated, rotated.Webhook)
	}
	if text := succeed(t, env, "", "client", "webhook", "rotate-secret", id); !strings.Contains(text, "webhook rotating until  2") {
		t.Errorf("rotated, for people:\n%s", text)
	}
	if text := succeed(t, env, "", "client", "webhook", "set", id, hook); !strings.Contains(text, "signing secret is unchanged") {
		t.Errorf("set again, for people:\n%s", text)
	}
	for _, paused := range []string{"pause", "pause", "resume", "resume"} {
		got := succeedJSON[operatorapi.Webhook](t, env, "", "client", "webhook", paused, id)
		if (got.PausedAt != nil) != (paused == "pause") {
			t.Errorf("%s: %+v", paused, got)
		}
	}
	if text := succeed(t, env, "", "client", "webhook", "pause", id); !strings.Contains(text, "its events wait until it resumes") {
		t.Errorf("paused, for people:\n%s", text)
	}

	db.Exec(t, "update webhook_endpoints set stopped_at = connect_now()")
	if again := act("set", id, hook); again.Webhook.StoppedAt != nil {
		t.Errorf("set after it was stopped: %+v", again.Webhook)
	}
	if removed := succeedJSON[operatorapi.Client](t, env, "", "client", "webhook", "remove", id); removed.ClientId.String() != id || removed.Webhook != nil {
		t.Errorf("removed: %+v", removed)
	}
	refuse(t, env, statusFailed, []string{"has no webhook"}, "client", "webhook", "remove", id)
	for _, act := range []string{"rotate-secret", "pause", "resume"} {
		refuse(t, env, statusFailed, []string{"has no webhook"}, "client", "webhook", act, id)
	}
}

func TestClientWebhookRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	good, id, unknown := allSettings(t, db), db.Client(t).ID.String(), uuid.NewString()
	create := append(slices.Clone(walkRewards), "--webhook-url")
	for name, tt := range map[string]struct {
		env    []string
		args   []string
		status int
		says   string
	}{
		"set of plain http":       {good, []string{"client", "webhook", "set", id, "http://partner.example/"}, statusUsage, "<url>: must"},
		"set of no URL":           {good, []string{"client", "webhook", "set", id, "partner"}, statusUsage, "<url>: must"},
		"set without keyset":      {env(db), []string{"client", "webhook", "set", id, hook}, statusUsage, "CONNECT_KEYSET_FILE"},
		"set of unknown":          {good, []string{"client", "webhook", "set", unknown, hook}, statusFailed, "no such client"},
		"rotate of unknown":       {good, []string{"client", "webhook", "rotate-secret", unknown}, statusFailed, "no such client"},
		"rotate without keyset":   {env(db), []string{"client", "webhook", "rotate-secret", id}, statusUsage, "CONNECT_KEYSET_FILE"},
		"remove of unknown":       {good, []string{"client", "webhook", "remove", unknown}, statusFailed, "no such client"},
		"remove of nothing":       {good, []string{"client", "webhook", "remove", id}, statusFailed, "has no webhook"},
		"create with plain http":  {good, append(slices.Clone(create), "http://partner.example/"), statusUsage, "--webhook-url: must"},
		"create without keyset":   {env(db), append(slices.Clone(create), hook), statusUsage, "CONNECT_KEYSET_FILE"},
		"update with plain http":  {good, []string{"client", "update", id, "--webhook-url", "http://partner.example/", "--burst", "7"}, statusUsage, "--webhook-url: must"},
		"update without keyset":   {env(db), []string{"client", "update", id, "--webhook-url", hook, "--burst", "7"}, statusUsage, "CONNECT_KEYSET_FILE"},
		"update of unknown":       {good, []string{"client", "update", unknown, "--webhook-url", hook}, statusFailed, "no such client"},
		"update of unknown, away": {good, []string{"client", "update", unknown, "--webhook-url", ""}, statusFailed, "no such client"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, tt.env, tt.status, []string{tt.says}, tt.args...)
		})
	}
	t.Cleanup(func() { // of all of them
		if n := pgtest.Value[int64](t, db, "select count(*) from clients where burst = 7 or name = 'Walk Rewards'"); n != 0 {
			t.Errorf("%d clients were made or changed", n)
		}
	})
}

// A keyset that cannot be used is one problem with one line.
func TestWebhookKeysetCannotBeUsed(t *testing.T) {
	t.Parallel()
	environ := []string{"CONNECT_DATABASE_URL=postgres://127.0.0.1:1/none", "CONNECT_KEYSET_FILE=/nowhere"}
	for _, args := range [][]string{
		{"client", "create", "--name", "N", "--callback", "https://partner.example/cb", "--scope", "daily_steps:read"},
		{"client", "update", "0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"},
	} {
		refuse(t, environ, statusUsage, []string{"CONNECT_KEYSET_FILE", "/nowhere", "cannot be used"}, append(args, "--webhook-url", hook)...)
	}
}
