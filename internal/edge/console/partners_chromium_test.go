package console

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// A partner is registered, changed, gets a logo and a new secret, is disabled, enabled and offboarded: each page and act.
func TestChromiumPartner(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.ConnectNew(t, "Walk Rewards")
	press := func(selector string) { s.Submit(chromedp.Click(chromedp.CSS(selector))) }
	s.at(t, partnersPath)
	press("a.other")
	s.looks(t, "new-partner")
	press("button.act")
	s.looks(t, "new-partner-problem")
	s.Submit(chromedp.SendKeys(chromedp.CSS("#f-name"), "WaIk Rewards"), chromedp.SendKeys(chromedp.CSS("#f-callback"), "https://app.walk.example/callback"),
		chromedp.Click(chromedp.CSS("button.act")))
	s.IsTitled("Register a partner · Console · Activity Connect")
	s.looks(t, "new-partner-alike")
	s.Submit(chromedp.Click(chromedp.CSS("[name=alike]")), chromedp.Click(chromedp.CSS("button.act")))
	s.IsTitled("The partner is registered · Console · Activity Connect")
	s.looks(t, "new-partner-secret")
	press(".ways a")
	s.IsTitled("WaIk Rewards · Console · Activity Connect")
	id := pgtest.Value[uuid.UUID](t, s.DB, "select client_id from clients where name = 'WaIk Rewards'")
	path := pathOf(id)

	s.at(t, path+"/change")
	s.looks(t, "change-partner")
	// The page begins at a problem far below.
	for field, wrong := range map[string]string{"webhook-parallel": `document.querySelector("#f-webhook-parallel").value = "99"`,
		"daily_steps:read": `document.querySelectorAll("fieldset input").forEach((box) => box.checked = false)`} {
		s.at(t, path+"/change")
		s.Submit(chromedp.Evaluate[chromedp.Void]("void ("+wrong+")"), chromedp.Click(chromedp.CSS("button.act")))
		s.Do(chromedp.WaitReady(chromedp.CSS(":focus"))) // which it gets when the page is drawn
		var focused struct {
			Name string
			Seen bool
		}
		s.Evaluate(`(at => ({Name: at.name, Seen: at.getBoundingClientRect().top > 0 && at.getBoundingClientRect().bottom < innerHeight}))(document.activeElement)`, &focused)
		if focused.Name != field || !focused.Seen {
			t.Errorf("%s is wrong, and the focus is on %+v", field, focused)
		}
	}
	s.at(t, path+"/change")
	s.Submit(chromedp.SetValue(chromedp.CSS("#f-homepage"), "https://www.walk.example/"), chromedp.Click(chromedp.CSS("button.act")))
	s.looks(t, "partner")

	s.at(t, path+"/logo")
	s.looks(t, "logo")
	file := filepath.Join(t.TempDir(), "logo.svg")
	if err := os.WriteFile(file, []byte(circle), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Submit(chromedp.SetUploadFiles(chromedp.CSS("#f-logo"), []string{file}), chromedp.Click(chromedp.CSS("button.act")))
	var width int
	s.Evaluate("document.querySelector('img.partner-logo').naturalWidth", &width)
	if width == 0 {
		t.Error("the logo is not shown")
	}
	s.looks(t, "partner-with-logo")
	s.at(t, path+"/logo")
	s.looks(t, "logo-there")

	s.at(t, path+"/secret")
	s.looks(t, "secret")
	press("button.act")
	s.IsTitled("The secret is replaced · Console · Activity Connect")
	s.looks(t, "secret-replaced")
	for _, act := range []string{"disable", "enable"} {
		s.at(t, path+"/"+act)
		s.looks(t, act)
		press("main button")
		s.IsTitled("WaIk Rewards · Console · Activity Connect")
		s.looks(t, act+"d")
	}
	s.at(t, path+"/revoke")
	s.looks(t, "revoke")
	s.at(t, path+"/offboard")
	s.looks(t, "offboard")
	press("button.grave")
	s.looks(t, "offboard-problem")
	s.Submit(chromedp.SetValue(chromedp.CSS("#f-name"), "WaIk Rewards"), chromedp.Click(chromedp.CSS("button.grave")))
	s.looks(t, "offboarded")
}

func TestChromiumWebhooks(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	address, _ := edgetest.Receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("nothing here ", 50), http.StatusTeapot)
	})
	partner := s.DB.Client(t, func(c *pgtest.Client) { c.Name = hostile[0] })
	path := pathOf(partner.ID) + "/webhooks"
	s.at(t, path)
	s.looks(t, "no-webhook")
	press := func(selector string) { s.Submit(chromedp.Click(chromedp.CSS(selector))) }
	press(".acts a")
	s.looks(t, "webhook-address")
	press("button.act")
	s.looks(t, "webhook-address-problem")
	s.Submit(chromedp.SetValue(chromedp.CSS("#f-url"), address), chromedp.Click(chromedp.CSS("button.act")))
	s.looks(t, "webhook-set")
	for state, n := range map[string]int{"failed": replayPart + 1, "delivered": 3} {
		s.events(t, partner.ID, state, n)
	}
	s.waiting(t, partner.ID, 2)
	s.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
		select user_id, event_id, n, connect_now(), 1234, case when n > 1 then 500 end, case when n = 1 then 'connection refused' end,
			convert_to(case when n > 1 then repeat(chr(60) || 'b>no ', 300) else '' end, 'UTF8')
		from webhook_events, generate_series(1, 3) n where state = 'failed'`)
	s.at(t, path)
	s.looks(t, "webhooks")
	s.at(t, path+"/test")
	s.looks(t, "webhook-test")
	press("button.act")
	s.looks(t, "webhook-tested")
	s.at(t, path+"/secret")
	s.looks(t, "webhook-secret")
	press("button.act")
	s.looks(t, "webhook-secret-replaced")
	s.at(t, path+"?state=failed")
	s.looks(t, "webhooks-failed")
	press("tbody a")
	s.looks(t, "webhook-event")
	press(".acts a")
	s.looks(t, "webhook-replay")
	press("button.act")
	s.looks(t, "webhook-replayed")
	s.events(t, partner.ID, "failed", 1)
	s.at(t, path+"/replay")
	s.looks(t, "webhook-replay-failed")
	press("button.act")
	s.looks(t, "webhook-replay-part")
	press("button.act")
	s.looks(t, "webhook-replayed-all")
	s.DB.Exec(t, "update webhook_endpoints set stopped_at = connect_now()")
	s.at(t, path)
	s.looks(t, "webhook-stopped")
	s.at(t, path+"/remove")
	s.looks(t, "webhook-remove")
	press("button.grave")
	s.looks(t, "webhook-removed")
}

// Texts that nobody would write, in the lists and forms of a real browser. The rules for all pages are checked with plausible
// names.
func TestChromiumHostilePartners(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	for _, name := range hostile {
		partner := s.DB.Client(t, func(c *pgtest.Client) { c.Name = name })
		s.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
			select $1, i = 1, connect_now(), $2, 400, $2, $2, i from generate_series(1, 2) i`, partner.ID, name)
	}
	s.at(t, partnersPath)
	s.looks(t, "hostile-partners")
	s.Do(chromedp.EmulateViewport(320, 800))
	for _, name := range hostile {
		path := pathOf(pgtest.Value[uuid.UUID](t, s.DB, "select client_id from clients where name = $1", name))
		for _, page := range []string{"/refused", "/offboard", ""} {
			s.isHarmless(t, "partner"+page, path+page)
		}
		s.IsTitled(name + " · Console · Activity Connect")
	}
}
