package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// journey is the way of an engineer and of an operator, in a window of a width. Only the first one looks at the pages.
type journey struct {
	*screen
	*testing.T
	width  int64
	looked bool
}

// looks is that of the screen, on pages that were not looked at before.
func (j journey) looks(name string) {
	j.Helper()
	if !j.looked {
		j.screen.looks(j.T, name)
	}
}

// opens opens a page that must be there.
func (j journey) opens(url string) {
	j.Helper()
	if status := j.Open(url); status != http.StatusOK {
		j.Errorf("%s answers %d", url, status)
	}
}

// press presses a link or a button as it is in the window.
func (j journey) press(selector string) {
	j.Helper()
	j.Do(chromedp.EmulateViewport(j.width, 844))
	j.Submit(chromedp.Click(chromedp.CSS(selector)))
}

// From the console's button to a replaced webhook secret, a pause, an event that is sent again, and a change that is requested and approved.
func TestChromiumPortal(t *testing.T) {
	t.Parallel()
	for _, width := range []int64{1280, 390} {
		t.Run(fmt.Sprint(width, " px"), func(t *testing.T) {
			t.Parallel()
			j := journey{newScreen(t), t, width, width == 390}
			j.travel()
			for _, problem := range j.Problems() {
				t.Error(problem)
			}
		})
	}
}

func (j journey) travel() {
	j.Helper()
	partner, _ := j.ConnectNew(j.T, "Stride Club")
	receiver, _ := edgetest.Receiver(j.T, nil)
	if _, err := j.Webhooks.SetEndpoint(j.Context(), partner.ID, receiver); err != nil {
		j.Fatal(err)
	}
	event := uuid.New()
	j.DB.Exec(j.T, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		select user_id, $1, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', connect_now(), 'failed', 1, true from connections`, event)
	j.config.Changes = portal.Changes{Webhooks: true, Secrets: true}
	server := j.portal(j.T)
	desk, home := j.server.URL+pathOf(partner.ID), server.URL+portal.Path+"/"+partner.ID.String()

	j.opens(desk + "/portal")
	j.looks("portal-none")
	j.press(".acts a")
	j.looks("portal-link")
	j.press("button.act")
	j.IsTitled("The link is made · Console · Activity Connect")
	var link string
	j.Evaluate(`document.querySelector(".secrets pre").textContent`, &link)
	j.opens(desk + "/portal")
	j.looks("portal")

	j.opens(server.URL + strings.TrimPrefix(link, j.config.BaseURL))
	j.looks("portal-open")
	j.press("button.act")
	j.IsTitled("Stride Club · Partner pages · Activity Connect")
	j.looks("portal-home")
	if !j.looked {
		for _, page := range []string{"usage", "refused", "connections", "webhooks", "log", "consent", "secret", "webhooks/address", "changes", "changes/logo"} {
			j.opens(home + "/" + page)
			j.looks("portal-" + strings.ReplaceAll(page, "/", "-"))
		}
	}
	j.opens(home + "/webhooks/secret")
	j.press("button.act")
	j.IsTitled("The webhook secret is replaced · Partner pages · Activity Connect")

	j.opens(home + "/webhooks")
	j.press(`.acts a[href$="/pause"]`)
	j.looks("portal-pause")
	j.press("button.act")
	j.looks("portal-paused")
	j.opens(home)
	j.looks("portal-home-paused")
	j.opens(home + "/webhooks/" + event.String())
	j.press(".acts a")
	j.press("button.act")
	if state := pgtest.Value[string](j.T, j.DB, "select state from webhook_events where event_id = $1", event); state == "failed" {
		j.Error("the event was not queued again")
	}
	j.looks("portal-event")
	j.opens(home + "/webhooks")
	j.press(`.acts a[href$="/resume"]`)
	j.press("button.act")
	if paused := pgtest.Value[bool](j.T, j.DB, "select paused_at is not null from webhook_endpoints"); paused {
		j.Error("the webhook is still paused")
	}

	j.opens(home + "/changes")
	j.press(`.acts a[href$="/request"]`)
	j.Do(chromedp.Evaluate[chromedp.Void](`void ["burst", "homepage"].forEach(n => document.getElementById("f-" + n).value = n === "burst" ? 120 : "https://stride.example/a-page-with-a-rather-long-address-that-has-to-wrap-somewhere")`))
	j.looks("portal-changes-request")
	j.press("main button.act")
	j.looks("portal-changes-open")
	j.opens(j.server.URL + Path)
	j.looks("home-changes")
	j.press(`.needs a[href$="/changes"]`)
	j.looks("changes")
	j.press("tbody a")
	j.looks("partner-changes")
	j.press(".acts a")
	j.looks("partner-changes-approve")
	j.press("button.act")
	if now, err := j.Clients.Get(j.Context(), partner.ID); err != nil || now.Policy.Burst != 120 {
		j.Errorf("the burst is %d, %v", now.Policy.Burst, err)
	}
	j.opens(home + "/changes")
	j.looks("portal-changes-approved")
	j.press("header .session button")
	j.IsTitled("You have signed out · Partner pages · Activity Connect")
	j.looks("portal-signed-out")
}
