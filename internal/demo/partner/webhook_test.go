package partner

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	grant         = "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55"
)

func revokedEvent(grant, version, reason string) string {
	return fmt.Sprintf(`{"type":"connection.revoked","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":%q,"connection_version":%q,"reason":%q}}`, grant, version, reason)
}

func updatedEvent(version, from, to string) string {
	return fmt.Sprintf(`{"type":"activity.updated","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":%q,"connection_version":%q,"datasets":["daily_steps","cycling_daily"],"from":%q,"to":%q}}`, grant, version, from, to)
}

// call is what the service sends; the answer's status is returned.
func (b *browserOf) call(id, body string, edit func(http.Header)) int {
	b.t.Helper()
	key, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		b.t.Fatal(err)
	}
	now := time.Now()
	signature, err := key.Sign(id, now, []byte(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "https://partner.example"+WebhookPath, strings.NewReader(body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
	r.Header.Set("webhook-signature", signature)
	if edit != nil {
		edit(r.Header)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w.Code
}

// worked is the outcome of the newest call, once everything that was put aside is done.
func worked(t *testing.T, p *Partner) received {
	t.Helper()
	for len(p.inbox) > 0 {
		p.settle(<-p.inbox)
	}
	return p.calls(time.UTC)[0]
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		body    string
		want    received
		over    string
		removed bool // the connection is gone before it comes
	}{
		{name: "the user disconnected", body: revokedEvent(grant, "3", "user_disconnected"), over: "you disconnected this partner at Activity Connect",
			want: received{Type: "connection.revoked", About: "Alex", Detail: "user_disconnected", Outcome: "The tokens were thrown away."}},
		{name: "a reason of later", body: revokedEvent(grant, "10", "moon_phase"), over: "Activity Connect says moon_phase",
			want: received{Type: "connection.revoked", About: "Alex", Detail: "moon_phase", Outcome: "The tokens were thrown away."}},
		{name: "a lower version", body: revokedEvent(grant, "2", "user_disconnected"),
			want: received{Type: "connection.revoked", About: "Alex", Detail: "user_disconnected", Outcome: "About an older connection: ignored."}},
		{name: "disconnected here", removed: true, body: revokedEvent(grant, "3", "client_disconnected"),
			want: received{Type: "connection.revoked", About: "Alex", Detail: "client_disconnected", Outcome: "Known already."}},
		{name: "nobody's", body: revokedEvent("00000000-0000-4000-8000-000000000001", "3", "user_disconnected"),
			want: received{Type: "connection.revoked", Detail: "user_disconnected", Outcome: "No connection of anybody here: ignored."}},
		{name: "activity of a day", body: updatedEvent("3", "2026-11-20", "2026-11-20"),
			want: received{Type: "activity.updated", About: "Alex", Detail: "daily_steps, cycling_daily, 20 Nov", Outcome: "This page reads it when it is shown next."}},
		{name: "activity of days", body: updatedEvent("2", "2026-10-31", "2026-11-02"),
			want: received{Type: "activity.updated", About: "Alex", Detail: "daily_steps, cycling_daily, 31 Oct to 2 Nov", Outcome: "About an older connection: ignored."}},
		{name: "activity of nobody", removed: true, body: updatedEvent("3", "2026-11-20", "2026-11-20"),
			want: received{Type: "activity.updated", About: "Alex", Detail: "daily_steps, cycling_daily, 20 Nov", Outcome: "Nothing is read any more: ignored."}},
		{name: "a type of later", body: `{"type":"goal.reached"}`,
			want: received{Type: "goal.reached", Outcome: "Not known here: ignored."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, member := newService(t).partner(t)
			c, _ := p.store.get(member.Key)
			c.GrantID, c.Version = grant, "3"
			if err := p.store.put(member.Key, c); err != nil {
				t.Fatal(err)
			}
			if test.removed {
				if err := p.store.remove(member.Key); err != nil {
					t.Fatal(err)
				}
			}
			b := &browserOf{t: t, handler: p.Handler()}
			for range 3 { // the same event, tried again
				if status := b.call("msg_1", test.body, nil); status != http.StatusNoContent {
					t.Fatalf("answered %d", status)
				}
			}
			test.want.Verified, test.want.Again = true, 2
			got := worked(t, p)
			got.At = time.Time{}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c, _ := p.store.get(member.Key); c.Over != test.over || (test.over != "" && c.RefreshToken+c.AccessToken != "") {
				t.Errorf("over %q, want %q: %+v", c.Over, test.over, c)
			}
			if c, _ := p.store.get(member.Key); c.Forgotten != (test.over != "" && test.want.Detail == "user_disconnected") {
				t.Errorf("forgotten: %t", c.Forgotten)
			}
			if n := len(p.calls(time.UTC)); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	p, _ := newService(t).partner(t)
	b := &browserOf{t: t, handler: p.Handler()}
	body := revokedEvent(grant, "3", "user_disconnected")
	for name, test := range map[string]struct {
		body   string
		edit   func(http.Header)
		status int
		says   string
	}{
		"no headers":     {body, func(h http.Header) { clear(h) }, 401, "no usable webhook headers"},
		"an old call":    {body, func(h http.Header) { h.Set("webhook-timestamp", "1000000000") }, 401, "more than 5 minutes ago"},
		"another's call": {body, func(h http.Header) { h.Set("webhook-id", "msg_2") }, 401, "no signature"},
		"no event":       {"hello", nil, 401, "no event"},
		"endless":        {strings.Repeat(" ", mostBody+1), nil, 400, ""},
	} {
		if status := b.call("msg_1", test.body, test.edit); status != test.status {
			t.Errorf("%s: answered %d, want %d", name, status, test.status)
		}
		if test.says == "" {
			continue
		}
		if row := p.calls(time.UTC)[0]; row.Verified || !strings.Contains(row.Detail, test.says) {
			t.Errorf("%s: shown as %+v", name, row)
		}
	}
	if len(p.inbox) != 0 {
		t.Errorf("%d events were taken", len(p.inbox))
	}
}

// An event for which there is no room is not answered with a yes, and so comes again.
func TestFullInbox(t *testing.T) {
	t.Parallel()
	p, _ := newService(t).partner(t)
	b := &browserOf{t: t, handler: p.Handler()}
	body := revokedEvent(grant, "3", "user_disconnected")
	for i := range mostWaiting {
		if status := b.call(fmt.Sprint("msg_", i), body, nil); status != http.StatusNoContent {
			t.Fatalf("call %d: %d", i, status)
		}
	}
	if status := b.call("msg_last", body, nil); status != http.StatusServiceUnavailable {
		t.Errorf("without room: %d", status)
	}
	worked(t, p)
	if status := b.call("msg_last", body, nil); status != http.StatusNoContent {
		t.Errorf("the next try: %d", status)
	}
	if n := len(p.calls(time.UTC)); n != mostReceived {
		t.Errorf("%d rows", n)
	}
}

// What came is shown to a person, and no grant_id with it.
func TestReceivedIsShown(t *testing.T) {
	t.Parallel()
	p, member := newService(t).partner(t)
	c, _ := p.store.get(member.Key)
	c.GrantID, c.Version = grant, "3"
	if err := p.store.put(member.Key, c); err != nil {
		t.Fatal(err)
	}
	b := &browserOf{t: t, handler: p.Handler()}
	b.call("msg_1", revokedEvent(grant, "3", `<b>`), nil)
	b.call("msg_1", "{}", func(h http.Header) { clear(h) })
	worked(t, p)
	for _, path := range []string{"/", "/webhooks/received"} {
		answer := b.do("GET", path)
		text, _ := io.ReadAll(answer.Body)
		for _, word := range []string{"connection.revoked", "Alex", "&lt;b&gt;", "</span> verified", "not verified", "thrown away"} {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s does not show %q:\n%s", path, word, text)
			}
		}
		if strings.Contains(string(text), grant) || strings.Contains(string(text), "<b>") {
			t.Errorf("%s shows what it must not:\n%s", path, text)
		}
		if state := answer.Header.Get("Connection-State"); path != "/" && state != "over" {
			t.Errorf("state %q", state)
		}
	}
}
