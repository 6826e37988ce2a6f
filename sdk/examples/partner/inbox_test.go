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
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect.invalid/connect-go/connect"
)

func revokedEvent(grant, version, reason string) string {
	return fmt.Sprintf(`{"type":"connection.revoked","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":%q,"connection_version":%q,"reason":%q}}`, grant, version, reason)
}

func updatedEvent(version, from, to string) string {
	return fmt.Sprintf(`{"type":"activity.updated","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":%q,"connection_version":%q,"datasets":["daily_steps","cycling_daily"],"from":%q,"to":%q}}`, grant, version, from, to)
}

// call is what the service sends; the response's status is returned.
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
		p.work(t.Context(), <-p.inbox)
	}
	return p.shownCalls(p.config.Members[0])[0]
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	const thrown, old, unknown = "The keys were thrown away.", "About a connection that is over or was made again: ignored.", "Nothing that is known here: ignored."
	for _, test := range []struct {
		name    string
		body    string
		want    received
		why     string
		removed bool // the connection is gone before it comes
	}{
		{name: "the user disconnected", body: revokedEvent(grant, "3", "user_disconnected"), why: "you disconnected this partner at Activity Connect",
			want: received{Type: "connection.revoked", About: "Alex", Detail: "user_disconnected", Outcome: thrown}},
		{name: "a reason of later", body: revokedEvent(grant, "10", "moon_phase"),
			want: received{Type: "connection.revoked", About: "Alex", Detail: "moon_phase", Outcome: thrown}},
		{name: "a lower version", body: revokedEvent(grant, "2", "user_disconnected"),
			want: received{Type: "connection.revoked", About: "Alex", Detail: "user_disconnected", Outcome: old}},
		{name: "disconnected here", removed: true, body: revokedEvent(grant, "3", "client_disconnected"),
			want: received{Type: "connection.revoked", About: "Alex", Detail: "client_disconnected", Outcome: old}},
		{name: "nobody's", body: revokedEvent("00000000-0000-4000-8000-000000000001", "3", "user_disconnected"),
			want: received{Type: "connection.revoked", Detail: "user_disconnected", Outcome: unknown}},
		{name: "activity of a day", body: updatedEvent("3", "2026-11-20", "2026-11-20"),
			want: received{Type: "activity.updated", About: "Alex", Detail: "daily_steps, cycling_daily, 20 Nov", Outcome: "This page reads it when it is shown next."}},
		{name: "activity of days", body: updatedEvent("2", "2026-10-31", "2026-11-02"),
			want: received{Type: "activity.updated", About: "Alex", Detail: "daily_steps, cycling_daily, 31 Oct to 2 Nov", Outcome: old}},
		{name: "activity of nobody", removed: true, body: updatedEvent("3", "2026-11-20", "2026-11-20"),
			want: received{Type: "activity.updated", About: "Alex", Detail: "daily_steps, cycling_daily, 20 Nov", Outcome: old}},
		{name: "a type of later", body: `{"type":"goal.reached"}`,
			want: received{Type: "goal.reached", Outcome: unknown}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newService().partner(t)
			keep(t, p, "3")
			b := &browserOf{t: t, handler: p.Handler()}
			if test.removed {
				b.do("POST", "/disconnect")
			}
			for range 3 { // the same event, tried again
				if status := b.call("msg_1", test.body, nil); status != http.StatusNoContent {
					t.Fatalf("answered %d", status)
				}
			}
			test.want.Verified, test.want.Again = true, 2
			got := worked(t, p)
			got.At, got.Call = time.Time{}, exchange{}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			held, state, _ := p.held(t.Context(), "alex")
			over := test.want.Outcome == thrown
			if (state == "over") != over || over && held.RefreshToken+held.AccessToken != "" {
				t.Errorf("the connection is %v, over: %t", held, over)
			}
			if why := p.endings[ended{"alex", held.Version}]; why.Why != test.why || why.Forgotten != (test.why != "") {
				t.Errorf("%+v", why)
			}
			if n := len(p.shownCalls(p.config.Members[0])); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// A member connects another account. The former one ends by that, and its event ends nothing of the new one, whose versions begin anew.
func TestEventsOfAFormerAccount(t *testing.T) {
	t.Parallel()
	s := newService()
	p := s.partner(t)
	former := connect.Connection{GrantID: uuid.MustParse("1c9e6679-7425-40de-944b-e07fc1f90ae7"), Version: "2", State: connect.StateActive, RefreshToken: "svcr2_former"}
	if err := p.Keep(t.Context(), "alex", former); err != nil {
		t.Fatal(err)
	}
	b := &browserOf{t: t, handler: p.Handler()}
	b.do("GET", CallbackPath+"?code=c&state="+b.begin().Get("state"))
	if s.count(former.GrantID.String()) != 1 {
		t.Fatal("the former account was not disconnected")
	}
	for i, body := range []string{
		revokedEvent(former.GrantID.String(), former.Version, "client_disconnected"),
		strings.Replace(updatedEvent(former.Version, "2026-11-20", "2026-11-20"), grant, former.GrantID.String(), 1),
	} {
		b.call(fmt.Sprint("msg_", i), body, nil)
		if got := worked(t, p); got.About != "Alex" || got.Outcome != outdated {
			t.Errorf("%s: about %q: %s", got.Type, got.About, got.Outcome)
		}
	}
	held, state, err := p.held(t.Context(), "alex")
	if err != nil || held.GrantID.String() != grant || state != "connected" || len(p.endings) > 0 {
		t.Errorf("the new connection is %v, %q, %v", held, state, err)
	}
}

// The page learns the reason also where it has found out by itself that the connection is over.
func TestReasonComesLater(t *testing.T) {
	t.Parallel()
	s := newService()
	p := s.partner(t)
	keep(t, p, "3")
	s.set("token", 400)
	b := &browserOf{t: t, handler: p.Handler()}
	b.do("POST", "/refresh")
	b.call("msg_1", revokedEvent(grant, "3", "user_disconnected"), nil)
	worked(t, p)
	if why := p.endings[ended{"alex", "3"}]; !why.Forgotten || why.Why == "" {
		t.Errorf("%+v", why)
	}
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	p := newService().partner(t)
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
		"endless":        {strings.Repeat(" ", 64<<10+1), nil, 400, ""},
	} {
		if status := b.call("msg_1", test.body, test.edit); status != test.status {
			t.Errorf("%s: answered %d, want %d", name, status, test.status)
		}
		if test.says == "" {
			continue
		}
		if row := p.shownCalls(p.config.Members[0])[0]; row.Verified || !strings.Contains(row.Detail, test.says) {
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
	p := newService().partner(t)
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
	if n := len(p.shownCalls(p.config.Members[0])); n != mostReceived {
		t.Errorf("%d rows", n)
	}
}

// TestReceivedByMember: a member's page has the events about that member, and what is about nobody.
func TestReceivedByMember(t *testing.T) {
	t.Parallel()
	p := newService().partner(t)
	b := &browserOf{t: t, handler: p.Handler()}
	keep(t, p, "3")
	other := Member{Name: "Other", Timezone: time.UTC}
	if status := b.call("msg_1", revokedEvent(grant, "3", "user_disconnected"), nil); status != http.StatusNoContent {
		t.Fatalf("answered %d", status)
	}
	if status := b.call("msg_2", "hello", nil); status != http.StatusUnauthorized {
		t.Fatalf("answered %d", status)
	}
	if own, others := len(p.shownCalls(p.config.Members[0])), len(p.shownCalls(other)); own != 2 || others != 1 {
		t.Errorf("%d calls on the member's page and %d on the other's, want 2 and 1", own, others)
	}
}

// The page shows received events to a person, without a grant_id.
func TestReceivedIsShown(t *testing.T) {
	t.Parallel()
	p := newService().partner(t)
	keep(t, p, "3")
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
