package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect-svc/internal/domain/webhook/verify"
)

const (
	verifySecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifyBody   = `{"type":"connection.revoked","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55","connection_version":"3","reason":"user_disconnected"}}`
)

// verifySigned is the second at which the calls of these tests were signed.
var verifySigned = time.Date(2026, 11, 21, 10, 0, 1, 0, time.UTC)

// received writes a call to files, as a partner would send them: the headers are changed by edit. It returns the flags.
func received(t *testing.T, body string, edit func(headers, body string) (string, string)) []string {
	t.Helper()
	key, err := standardwebhooks.NewWebhook(verifySecret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := key.Sign("msg_1", verifySigned, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	headers := fmt.Sprintf("webhook-id: msg_1\nwebhook-timestamp: %d\nwebhook-signature: %s\n", verifySigned.Unix(), signature)
	if edit != nil {
		headers, body = edit(headers, body)
	}
	dir := t.TempDir()
	flags := []string{"webhook", "verify", "--secret", verifySecret}
	for name, content := range map[string]string{"headers": headers, "body": body} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--"+name, file)
	}
	return flags
}

func TestWebhookVerify(t *testing.T) {
	t.Parallel()
	signed := verifySigned
	id, event, later := "msg_1", "connection.revoked", "goal.reached"
	genuine := verify.Verdict{Genuine: true, WebhookID: &id, SignedAt: &signed, Type: &event}
	for name, tt := range map[string]struct {
		body string
		edit func(headers, body string) (string, string)
		more []string
		want verify.Verdict
	}{
		"as it came": {verifyBody, nil, nil, genuine},
		"a whole request": {verifyBody, func(h, b string) (string, string) {
			return "POST /webhooks HTTP/1.1\r\nHost: partner.example\r\n" + strings.ReplaceAll(h, "\n", "\r\n") + "\r\n", b
		}, nil, genuine},
		"names as servers write them": {verifyBody, func(h, b string) (string, string) {
			return strings.ReplaceAll(h, "webhook-", "Webhook-"), b
		}, nil, genuine},
		"in time":         {verifyBody, nil, []string{"--received", "2026-11-21T10:04:00Z"}, genuine},
		"a type of later": {`{"type":"goal.reached"}`, nil, nil, verify.Verdict{Genuine: true, WebhookID: &id, SignedAt: &signed, Type: &later}},
		"genuine and no event": {"hello", nil, nil, verify.Verdict{
			Genuine: true, WebhookID: &id, SignedAt: &signed,
			Reason: "the call is genuine, but its body is no event: invalid character 'h' looking for beginning of value",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(received(t, tt.body, tt.edit), tt.more...)
			if diff := cmp.Diff(tt.want, succeedJSON[verify.Verdict](t, nil, "", args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := succeed(t, nil, "", args...); !strings.HasPrefix(text, "genuine     yes\n") || !strings.Contains(text, "msg_1") {
				t.Errorf("for people:\n%s", text)
			}
		})
	}
}

func TestWebhookVerifyRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(headers, body string) (string, string)
		more []string
		says string
	}{
		"another body":    {func(h, b string) (string, string) { return h, strings.Replace(b, "3", "4", 1) }, nil, "no signature of the call matches"},
		"a line break":    {func(h, b string) (string, string) { return h, b + "\n" }, nil, "without the line break"},
		"written anew":    {func(h, b string) (string, string) { return h, strings.ReplaceAll(b, ",", ",\n  ") + "\n" }, nil, "without the white space"},
		"too late":        {nil, []string{"--received", "2026-11-21T11:00:00Z"}, "more than 5 minutes ago"},
		"too early":       {nil, []string{"--received", "2026-11-21T09:00:00Z"}, "in the future"},
		"another secret":  {nil, []string{"--secret", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}, "no signature"},
		"a header missed": {func(h, b string) (string, string) { return strings.Replace(h, "webhook-id", "x-id", 1), b }, nil, "webhook-id missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(received(t, verifyBody, tt.edit), tt.more...)
			refuse(t, nil, statusFailed, []string{"not genuine: ", tt.says}, args...)

			got := call(t, nil, "", append(args, "--output", "json")...)
			var verdict verify.Verdict
			if err := json.Unmarshal([]byte(got.stdout), &verdict); err != nil || got.status != statusFailed {
				t.Fatalf("status %d, %v in %s", got.status, err, got.stdout)
			}
			if verdict.Genuine || !strings.Contains(verdict.Reason, tt.says) || verdict.WebhookID != nil {
				t.Errorf("%+v", verdict)
			}
		})
	}
	files := received(t, verifyBody, nil)
	refuse(t, nil, statusUsage, []string{"--secret: "}, append(files, "--secret", "whsec_")...)
	refuse(t, nil, statusFailed, []string{"no such file"}, append(files, "--body", filepath.Join(t.TempDir(), "none"))...)
	refuse(t, nil, statusFailed, []string{"not headers"}, received(t, verifyBody, func(_, b string) (string, string) { return b, b })...)
}

// A partner may send what their server logged; it never comes with our secret in the message.
func TestWebhookVerifyNeverPrintsTheSecret(t *testing.T) {
	t.Parallel()
	args := received(t, verifyBody, func(h, _ string) (string, string) { return h, verifySecret })
	got := call(t, nil, "", append(args, "--output", "json")...)
	if strings.Contains(got.stdout+got.stderr, verifySecret) || got.status != statusFailed {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}
