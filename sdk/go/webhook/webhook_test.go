package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/webhook"
)

const (
	secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwQ2hlcnJ5"
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	revoked     = `{"type":"connection.revoked","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55","connection_version":"10","reason":"user_disconnected"}}`
	updated     = `{"type":"activity.updated","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55","connection_version":"3","datasets":["daily_steps"],"from":"2026-11-20","to":"2026-11-21"}}`
)

var signedAt = time.Date(2026, 11, 21, 10, 0, 1, 0, time.UTC)

// call is what the service sends: the headers of a body, signed by each secret.
func call(tb testing.TB, body string, at time.Time, secrets ...string) http.Header {
	tb.Helper()
	var signatures []string
	for _, secret := range secrets {
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			tb.Fatal(err)
		}
		signature, err := key.Sign("msg_1", at, []byte(body))
		if err != nil {
			tb.Fatal(err)
		}
		signatures = append(signatures, signature)
	}
	header := http.Header{}
	header.Set("webhook-id", "msg_1")
	header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	header.Set("webhook-signature", strings.Join(signatures, " "))
	return header
}

func TestEvents(t *testing.T) {
	t.Parallel()
	grant := uuid.MustParse("8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55")
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	day := func(d int) openapi.Date { return openapi.Date{Time: time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC)} }
	for name, tt := range map[string]struct {
		body string
		want webhook.Event
	}{
		"connection.revoked": {revoked, webhook.ConnectionRevoked{
			ID: "msg_1", Version: 10, ConnectionRevokedEvent: connectsdk.ConnectionRevokedEvent{
				Type: "connection.revoked", Timestamp: at, Data: connectsdk.ConnectionRevokedData{
					GrantId: grant, ConnectionVersion: "10", Reason: "user_disconnected",
				},
			},
		}},
		"activity.updated": {updated, webhook.ActivityUpdated{
			ID: "msg_1", Version: 3, ActivityUpdatedEvent: connectsdk.ActivityUpdatedEvent{
				Type: "activity.updated", Timestamp: at, Data: connectsdk.ActivityUpdatedData{
					GrantId: grant, ConnectionVersion: "3", Datasets: []connectsdk.Dataset{"daily_steps"},
					From: day(20), To: day(21),
				},
			},
		}},
		"a later type": {`{"type":"goal.reached","data":[1]}`, webhook.Unknown{ID: "msg_1", Type: "goal.reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := webhook.VerifyAt(secret, call(t, tt.body, signedAt, secret), []byte(tt.body), signedAt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.WebhookID() != "msg_1" {
				t.Errorf("id %q", got.WebhookID())
			}
		})
	}
}

// The contract grows: a receiver accepts what it does not know.
func TestUnknownFieldsAndReasons(t *testing.T) {
	t.Parallel()
	body := strings.NewReplacer(`"user_disconnected"`, `"moon_phase","since":"x"`, `,"data"`, `,"trace":{"a":1},"data"`).Replace(revoked)
	got, err := webhook.VerifyAt(secret, call(t, body, signedAt, secret), []byte(body), signedAt)
	if err != nil {
		t.Fatal(err)
	}
	if event, is := got.(webhook.ConnectionRevoked); !is || event.Data.Reason != "moon_phase" {
		t.Errorf("%+v", got)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	without := func(name string) http.Header {
		header := call(t, revoked, signedAt, secret)
		header.Del(name)
		return header
	}
	with := func(name, value string) http.Header {
		header := call(t, revoked, signedAt, secret)
		header.Set(name, value)
		return header
	}
	signature := call(t, revoked, signedAt, secret).Get("webhook-signature")
	genuine := with("x", "y")
	for name, tt := range map[string]struct {
		secret string
		header http.Header
		body   string
		age    time.Duration
		want   error
		says   string
	}{
		"genuine":                   {secret, genuine, revoked, 0, nil, ""},
		"5 minutes old":             {secret, genuine, revoked, webhook.Tolerance, nil, ""},
		"5 minutes early":           {secret, genuine, revoked, -webhook.Tolerance, nil, ""},
		"too old":                   {secret, genuine, revoked, webhook.Tolerance + time.Second, webhook.ErrTooOld, "5m1s"},
		"too new":                   {secret, genuine, revoked, -webhook.Tolerance - time.Second, webhook.ErrTooNew, "5m1s"},
		"no headers":                {secret, http.Header{}, revoked, 0, webhook.ErrHeaders, "webhook-id, webhook-timestamp, webhook-signature"},
		"no id":                     {secret, without("webhook-id"), revoked, 0, webhook.ErrHeaders, "webhook-id missing"},
		"no timestamp":              {secret, without("webhook-timestamp"), revoked, 0, webhook.ErrHeaders, "webhook-timestamp missing"},
		"no signature":              {secret, without("webhook-signature"), revoked, 0, webhook.ErrHeaders, "webhook-signature missing"},
		"timestamp is no number":    {secret, with("webhook-timestamp", "2026-11-21"), revoked, 0, webhook.ErrHeaders, "number of seconds"},
		"another timestamp":         {secret, with("webhook-timestamp", fmt.Sprint(signedAt.Unix()+1)), revoked, 0, webhook.ErrSignature, ""},
		"another id":                {secret, with("webhook-id", "msg_2"), revoked, 0, webhook.ErrSignature, ""},
		"another body":              {secret, genuine, strings.Replace(revoked, "10", "11", 1), 0, webhook.ErrSignature, ""},
		"body written anew":         {secret, genuine, strings.ReplaceAll(revoked, ",", ", "), 0, webhook.ErrSignature, ""},
		"another secret":            {otherSecret, genuine, revoked, 0, webhook.ErrSignature, ""},
		"another version of scheme": {secret, with("webhook-signature", "v2"+signature[2:]), revoked, 0, webhook.ErrSignature, ""},
		"a broken signature":        {secret, with("webhook-signature", "v1"), revoked, 0, webhook.ErrSignature, ""},
		"both secrets, the old":     {secret, call(t, revoked, signedAt, otherSecret, secret), revoked, 0, nil, ""},
		"both secrets, the new":     {otherSecret, call(t, revoked, signedAt, otherSecret, secret), revoked, 0, nil, ""},
		"empty secret":              {"", genuine, revoked, 0, webhook.ErrSecret, ""},
		"secret without a key":      {"whsec_", genuine, revoked, 0, webhook.ErrSecret, ""},
		"secret too short":          {"whsec_c2hvcnQ=", genuine, revoked, 0, webhook.ErrSecret, ""},
		"the client secret":         {"svcs_abc", genuine, revoked, 0, webhook.ErrSecret, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event, err := webhook.VerifyAt(tt.secret, tt.header, []byte(tt.body), signedAt.Add(tt.age))
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || (event == nil) != (err != nil) {
				t.Fatalf("event %v, error %v, want %v", event, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
}

func TestGenuineCallsThatAreNoEvent(t *testing.T) {
	t.Parallel()
	drop := func(field string) string { return strings.Replace(updated, `"`+field+`":`, `"x":`, 1) }
	for _, body := range []string{
		"", "null", "[]", "hello", `{"data":{}}`, `{"type":7}`,
		drop("timestamp"), drop("data"), drop("grant_id"), drop("connection_version"), drop("datasets"), drop("from"), drop("to"),
		strings.Replace(revoked, `"reason"`, `"x"`, 1), strings.Replace(revoked, `"10"`, `"0"`, 1), strings.Replace(revoked, `"10"`, `"ten"`, 1),
		strings.Replace(revoked, "8c7be7a0", "8c7be7az", 1), strings.Replace(updated, "2026-11-20", "yesterday", 1),
	} {
		if event, err := webhook.VerifyAt(secret, call(t, body, signedAt, secret), []byte(body), signedAt); !errors.Is(err, webhook.ErrNotEvent) || event != nil {
			t.Errorf("%s: event %+v, error %v", body, event, err)
		}
	}
}

// The example of the Standard Webhooks specification. Its body is not an event of this service.
func TestSpecificationsExample(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	const key, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	at, err := webhook.SignedAt(header)
	if err != nil || at.Unix() != 1614265330 {
		t.Fatalf("signed at %v, %v", at, err)
	}
	if _, err := webhook.VerifyAt(key, header, []byte(body), at); !errors.Is(err, webhook.ErrNotEvent) {
		t.Errorf("error %v, want a genuine call", err)
	}
	if _, err := webhook.Verify(key, header, []byte(body)); !errors.Is(err, webhook.ErrTooOld) {
		t.Errorf("by now: %v", err)
	}
}

// FuzzVerify: whatever a stranger sends is refused, unless it carries the service's own signature of just that; and whatever
// the service signs is an event or an error, and nothing else happens.
func FuzzVerify(f *testing.F) {
	good := call(f, revoked, signedAt, secret)
	f.Add(good.Get("webhook-timestamp"), good.Get("webhook-signature"), revoked)
	for _, seed := range [][3]string{
		{"", "", ""}, {"-1", "v1,", "{}"}, {"9223372036854775807", "v1,AA== v1a,AA==", updated}, {good.Get("webhook-timestamp"), "v1,\xff v1", "null"},
		{"1e9", "v2,AAAA", `{"type":"connection.revoked","data":[]}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, timestamp, signature, body string) {
		header := http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		_, err := webhook.VerifyAt(secret, header, []byte(body), signedAt)
		if ours := call(t, body, signedAt, secret).Get("webhook-signature"); err == nil && !strings.Contains(signature, ours) && timestamp == fmt.Sprint(signedAt.Unix()) {
			t.Errorf("taken with %q", signature)
		}
		if event, err := webhook.VerifyAt(secret, call(t, body, signedAt, secret), []byte(body), signedAt); (event == nil) == (err == nil) {
			t.Errorf("%v, %v", event, err)
		}
	})
}
