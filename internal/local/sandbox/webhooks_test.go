package sandbox

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/gen/sandboxapi"
)

// Webhooks go first where the sandbox was told at its start, then where the driver says.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	const elsewhere = "https://partner.example/webhooks"
	r := start(t, func(c *Config) { c.WebhookURL = elsewhere })
	if r.described.Client.WebhookUrl != elsewhere {
		t.Errorf("webhooks go to %s", r.described.Client.WebhookUrl)
	}
	t.Run("tries follow the clock", func(t *testing.T) { testWebhookRetriesFollowTheClock(t, r) })
	t.Run("no answer", func(t *testing.T) { testWebhookWithoutAnswer(t, r) })
}

// A receiver of the partner's, on loopback, that fails twice: the tries follow the clock that the test moves, and the
// list has what the receiver got.
func testWebhookRetriesFollowTheClock(t *testing.T, r *running) {
	type call struct {
		header http.Header
		body   string
	}
	calls := make(chan call, 10)
	received := 0
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		if received++; received <= 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		calls <- call{request.Header, string(body)}
	}))
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{r.authority.Server}, MinVersion: tls.VersionTLS12}
	receiver.Config.ErrorLog = log.New(t.Output(), "", 0)
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	want[nothing](t, r, 204, "PUT", "/sandbox/webhook", encode(t, sandboxapi.WebhookAddress{Url: receiver.URL + "/hooks"}))

	p := r.newPartner(t, sandboxapi.KindNew)
	grant := p.connect(t).GrantID
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+p.user.String()+"/connections/"+p.described.Client.ClientId.String(), "")
	var last call
	for try, wait := range []time.Duration{0, 7 * time.Second, 7 * time.Minute} { // the schedule with the most of its jitter
		if wait > 0 {
			r.webhook(t, grant, func(sent sandboxapi.Webhook) bool { return len(sent.Tries) >= try }) // recorded, or soon
			r.advanceBy(t, wait)
		}
		last = <-calls
	}
	sent := r.webhook(t, grant, func(sent sandboxapi.Webhook) bool { return len(sent.Tries) == 3 })
	var statuses []int
	for _, try := range sent.Tries {
		statuses = append(statuses, *try.Status)
	}
	if diff := cmp.Diff([]int{500, 500, 200}, statuses); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	if sent.Body != last.body {
		t.Errorf("the body is listed as %s, and was %s", sent.Body, last.body)
	}
	for name, value := range sent.Headers {
		if last.header.Get(name) != value {
			t.Errorf("%s is listed as %q, and was %q", name, value, last.header.Get(name))
		}
	}
	p.verify(t, sent)
}

// A receiver that is not there is a try without a status.
func testWebhookWithoutAnswer(t *testing.T, r *running) {
	gone := httptest.NewServer(nil)
	gone.Close()
	want[nothing](t, r, 204, "PUT", "/sandbox/webhook", encode(t, sandboxapi.WebhookAddress{Url: "https" + gone.URL[len("http"):]}))
	p := r.newPartner(t, sandboxapi.KindNew)
	grant := p.connect(t).GrantID
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+p.user.String()+"/connections/"+p.described.Client.ClientId.String(), "")
	if sent := r.webhook(t, grant, func(sent sandboxapi.Webhook) bool { return len(sent.Tries) >= 1 }); sent.Tries[0].Status != nil {
		t.Errorf("a status of nobody: %d", *sent.Tries[0].Status)
	}
}

// The list is bounded, newest first, and an event stands in it once.
func TestOutbox(t *testing.T) {
	t.Parallel()
	var s sandbox
	for n := range kept + 5 {
		s.record(http.Header{"Webhook-Id": {string(rune('a' + n))}}, []byte(`{"type":"activity.updated"}`), sandboxapi.Try{})
	}
	for range keptAttempts + 5 {
		s.record(http.Header{"Webhook-Id": {string(rune('a' + 10))}}, []byte(`{}`), sandboxapi.Try{})
	}
	list := s.sent.newestFirst()
	if len(list) != kept || list[0].Id != string(rune('a'+kept+4)) || len(list[kept-6].Tries) != keptAttempts {
		t.Errorf("%d webhooks, the newest %q, with %d tries of one", len(list), list[0].Id, len(list[kept-6].Tries))
	}
}
