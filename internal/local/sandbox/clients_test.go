package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/testing/wait"
)

// A sandbox has as many partners as a test needs, each with its own registration, and the operator's acts on each.
func TestClients(t *testing.T) {
	t.Parallel()
	seed := uint64(3)
	r := start(t, func(c *Config) {
		c.Seed, c.Clients = &seed, []Client{{"Stride", "https://stride.example/callback"}, {"Gait", "https://gait.example/callback"}}
	})
	var names []string
	for _, one := range r.described.Clients {
		names = append(names, one.Name+" "+one.CallbackUrl)
	}
	if diff := cmp.Diff([]string{
		"Sandbox Partner https://partner.example/callback", "Stride https://stride.example/callback", "Gait https://gait.example/callback",
	}, names); diff != "" || r.described.Client.ClientId != r.described.Clients[0].ClientId {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	made := r.newClient(t, `{"name":"Sole","scopes":["daily_steps:read"],"burst":1,"requests_per_minute":2,"concurrent_reads":3,
		"callback_url":"https://sole.example/back"}`)
	if made.Name != "Sole" || len(made.Scopes) != 1 || made.Burst != 1 || made.RequestsPerMinute != 2 || made.ConcurrentReads != 3 ||
		made.CallbackUrl != "https://sole.example/back" || made.Status != sandboxapi.ClientStatusActive {
		t.Errorf("made %+v", made)
	}
	all := want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "").Clients
	if diff := cmp.Diff(append(r.described.Clients, made), all); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	t.Run("status", func(t *testing.T) { testClientStatus(t, r.of(r.described.Clients[1])) })
	t.Run("portal link", func(t *testing.T) { testPortalLink(t, r.of(r.described.Clients[2])) })
	t.Run("secret", func(t *testing.T) { testClientSecret(t, r.of(r.described.Clients[2])) })
	t.Run("webhook secret", func(t *testing.T) { testWebhookSecret(t, r.of(r.described.Clients[2])) })
	t.Run("webhook set again", func(t *testing.T) { testWebhookSetAgain(t, r.of(r.described.Clients[2])) })
}

func (r *running) path(of string) string {
	return "/sandbox/clients/" + r.described.Client.ClientId.String() + of
}

// described again, as it is now.
func (r *running) again(t *testing.T) *running {
	t.Helper()
	for _, one := range want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "").Clients {
		if one.ClientId == r.described.Client.ClientId {
			return r.of(one)
		}
	}
	t.Fatal("the client is not listed")
	return nil
}

func testClientStatus(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	p.connect(t)
	set := func(status sandboxapi.ClientStatus) {
		t.Helper()
		want[nothing](t, r, 204, "PUT", r.path("/status"), encode(t, sandboxapi.ClientStatusChange{Status: status}))
		if got := r.again(t).described.Client.Status; got != status {
			t.Errorf("the client is %s, want %s", got, status)
		}
	}
	set(sandboxapi.ClientStatusDisabled)
	if status, code := p.refresh(t, "any"); status != 401 || code != "invalid_client" {
		t.Errorf("disabled: %d %s", status, code)
	}
	set(sandboxapi.ClientStatusActive)
	if days, err := p.steps(t, 1); err != nil || len(days) != 1 {
		t.Errorf("enabled again: %v, %v", days, err)
	}
	set(sandboxapi.ClientStatusOffboarded)
	if status, code := p.refresh(t, "any"); status != 401 || code != "invalid_client" {
		t.Errorf("offboarded: %d %s", status, code)
	}
}

func testPortalLink(t *testing.T, r *running) {
	link := want[sandboxapi.PortalLink](t, r, 200, "POST", r.path("/portal-link"), "")
	got := r.send(t, &http.Client{Transport: r.network}, "GET", link.Url, "", "")
	if got.Status != http.StatusOK || !strings.Contains(got.Body, "Open the pages of Gait?") {
		t.Errorf("the link: status %d", got.Status)
	}
}

// A secret that was replaced works until its overlap ends, by the sandbox's clock.
func testClientSecret(t *testing.T, r *running) {
	asked := func(r *running) string {
		_, code := r.newPartner(t, sandboxapi.KindNew).refresh(t, "of nobody")
		return code
	}
	made := want[sandboxapi.NewSecret](t, r, 200, "POST", r.path("/secret"), `{"overlap_seconds":60}`)
	fresh := r.again(t)
	if fresh.described.Client.ClientSecret != made.Secret || made.Secret == r.described.Client.ClientSecret || made.OverlapUntil == nil {
		t.Fatalf("replaced by %+v", made)
	}
	if got := []string{asked(r), asked(fresh)}; !cmp.Equal(got, []string{"invalid_grant", "invalid_grant"}) {
		t.Errorf("within the overlap: %v", got)
	}
	r.advanceBy(t, 61*time.Second)
	if got := []string{asked(r), asked(fresh)}; !cmp.Equal(got, []string{"invalid_client", "invalid_grant"}) {
		t.Errorf("after the overlap: %v", got)
	}
	if at := want[sandboxapi.NewSecret](t, r, 200, "POST", r.path("/secret"), `{"overlap_seconds":0}`).OverlapUntil; at != nil {
		t.Errorf("without an overlap it lasts until %s", *at)
	}
	if got := asked(fresh); got != "invalid_client" {
		t.Errorf("without an overlap: %s", got)
	}
}

// Both secrets sign until the overlap ends.
func testWebhookSecret(t *testing.T, r *running) {
	r = r.again(t)
	want[sandboxapi.NewSecret](t, r, 200, "POST", r.path("/webhook-secret"), "")
	fresh := r.again(t)
	if fresh.described.Client.WebhookSecret == r.described.Client.WebhookSecret {
		t.Fatal("the secret is the same")
	}
	sent := fresh.newWebhook(t)
	for _, r := range []*running{r, fresh} {
		r.newPartner(t, sandboxapi.KindNew).verify(t, sent)
	}
}

// A webhook that a partner has removed on its own pages, and that is set again, has a secret that the driver tells.
func testWebhookSetAgain(t *testing.T, r *running) {
	if err := r.service.Webhooks.RemoveEndpoint(t.Context(), r.described.Client.ClientId); err != nil {
		t.Fatal(err)
	}
	want[nothing](t, r, 204, "PUT", "/sandbox/webhook", encode(t, sandboxapi.WebhookAddress{
		Url: r.described.Client.WebhookUrl, ClientId: &r.described.Client.ClientId,
	}))
	r = r.again(t)
	r.newPartner(t, sandboxapi.KindNew).verify(t, r.newWebhook(t))
}

// A plain receiver on this machine gets each webhook as it was signed. It can be had twice, late, and again.
func TestPlainReceiver(t *testing.T) {
	t.Parallel()
	type call struct{ id, body string }
	calls, told := make(chan call, 100), make(chan string, 100)
	r := start(t, func(c *Config) {
		c.Sent = func(sent sandboxapi.Webhook, try sandboxapi.Try) { told <- fmt.Sprint(sent.Id, " ", *try.Status) }
	})
	receiver := r.plainReceiver(t, func(header http.Header, body string) int {
		calls <- call{header.Get("Webhook-Id"), body}
		return http.StatusAccepted
	})
	if got := r.newWebhook(t); *got.Tries[0].Status != 204 { // by the receiver inside
		t.Errorf("the first one: %+v", got.Tries)
	}
	<-told
	want[nothing](t, r, 204, "PUT", "/sandbox/webhook", encode(t, sandboxapi.WebhookAddress{Url: receiver}))
	r = r.again(t)
	if r.described.Client.WebhookUrl != receiver {
		t.Errorf("webhooks go to %s", r.described.Client.WebhookUrl)
	}
	next := func(sent sandboxapi.Webhook) {
		t.Helper()
		if got := <-calls; got.id != sent.Id || got.body != sent.Body {
			t.Errorf("received %+v, sent %+v", got, sent)
		}
		if got := <-told; got != sent.Id+" 202" {
			t.Errorf("told of %s", got)
		}
	}
	sent := r.newWebhook(t)
	next(sent)
	r.newPartner(t, sandboxapi.KindNew).verify(t, sent)

	want[nothing](t, r, 204, "POST", "/sandbox/webhooks/"+sent.Id+"/resend", "")
	next(sent)

	want[nothing](t, r, 204, "POST", "/sandbox/deliveries", `{"fault":"duplicate"}`)
	sent = r.newWebhook(t)
	next(sent)
	next(sent)

	p, q := r.newPartner(t, sandboxapi.KindNew), r.newPartner(t, sandboxapi.KindNew)
	first, second := p.connect(t).GrantID, q.connect(t).GrantID
	want[nothing](t, r, 204, "POST", "/sandbox/deliveries", `{"fault":"reorder"}`)
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+p.user.String()+"/connections/"+r.described.Client.ClientId.String(), "")
	wait.Until(t, "the first one is held", func() bool {
		r.disturbances.mu.Lock()
		defer r.disturbances.mu.Unlock()
		return r.disturbances.held != nil
	})
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+q.user.String()+"/connections/"+r.described.Client.ClientId.String(), "")
	next(r.webhook(t, second, func(sandboxapi.Webhook) bool { return true }))
	next(r.webhook(t, first, func(sandboxapi.Webhook) bool { return true }))
	if len(calls) > 0 {
		t.Errorf("received also %+v", <-calls)
	}

	want[nothing](t, r, 204, "POST", "/sandbox/deliveries", `{"fault":"reorder","times":1000}`)
	want[nothing](t, r, 204, "DELETE", "/sandbox/answers", "")
	next(r.newWebhook(t)) // nothing is left of it
}

// A user's zone decides the day, and the user records up to it; the registration day is the first that can be read.
func TestChangedUser(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { c.Now = time.Date(2026, 3, 10, 11, 0, 0, 0, time.UTC) })
	user := "/sandbox/users/" + r.newUser(t, sandboxapi.KindActive).String()
	changed := want[sandboxapi.User](t, r, 200, "PATCH", user, `{"timezone":"Pacific/Kiritimati","registered_on":"2026-03-01"}`)
	if changed.Today.String() != "2026-03-11" || changed.Timezone != "Pacific/Kiritimati" || changed.RegisteredOn.String() != "2026-03-01" {
		t.Errorf("changed to %+v", changed)
	}
	var last time.Time
	if err := r.service.Pool.QueryRow(t.Context(), "select max(date) from daily_steps where user_id = $1", changed.UserId).Scan(&last); err != nil ||
		last.Format(time.DateOnly) != "2026-03-11" {
		t.Errorf("the last day is %v, %v", last, err)
	}
	users := want[sandboxapi.Sandbox](t, r, 200, "GET", "/sandbox", "").Users
	if diff := cmp.Diff(changed, users[len(users)-1]); diff != "" {
		t.Errorf("(-changed +listed):\n%s", diff)
	}
}

// Plain HTTP is for this machine alone, however a URL is written.
func TestCheckReceiver(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"https://partner.example/webhooks": true, "http://localhost:3000/webhooks": true, "http://127.0.0.1/": true, "http://127.1.2.3:80/x?y": true,
		"http://[::1]:3000/": true, "http://partner.example/": false, "http://localhost.partner.example/": false, "http://127.0.0.1.nip.example/": false,
		"http://localhost@partner.example/": false, "http://partner.example#localhost": false, "http://10.0.0.1/": false, "http://0.0.0.0/": false,
		"http://[::]/": false, "http://2130706433/": false, "http://0x7f.1/": false, "http://127.1/": false, "http://[::ffff:10.0.0.1]/": false,
		"http://[::1%25lo]/": false, "http://LOCALHOST./": false, "http://": false, "http:///": false, "HTTP://localhost/": false, "ftp://localhost/": false,
		"http://localhost:0/": false, "http://localhost:99999/": false, "http://local\nhost/": false,
	} {
		if err := CheckReceiver(url); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Even where a name leads elsewhere, or a URL has passed, no connection leaves the machine.
func TestPlainTransportStaysHere(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://0.0.0.0:1/", "http://[::]:1/"} { // of this machine, but not loopback
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := newPlain().RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if !errors.Is(err, errNotLoopback) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
