package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"connect-svc/internal/portal"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// From the console's button to a replaced webhook secret and an event that is sent again.
func TestChromiumPortal(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	partner, _ := s.ConnectNew(t, "Stride Club")
	receiver, _ := edgetest.Receiver(t, nil)
	if _, err := s.Webhooks.SetEndpoint(t.Context(), partner.ID, receiver); err != nil {
		t.Fatal(err)
	}
	event := uuid.New()
	s.DB.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		select user_id, $1, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', connect_now(), 'failed', 1, true from connections`, event)
	s.config.Changes = portal.Changes{Webhooks: true, Secrets: true}
	server := s.portal(t)
	press := func(selector string) { s.Submit(chromedp.Click(chromedp.CSS(selector))) }

	s.at(t, pathOf(partner.ID)+"/portal")
	s.looks(t, "portal-none")
	press(".acts a")
	s.looks(t, "portal-link")
	press("button.act")
	s.IsTitled("The link is made · Console · Activity Connect")
	var link string
	s.Evaluate(`document.querySelector(".secrets pre").textContent`, &link)
	s.at(t, pathOf(partner.ID)+"/portal")
	s.looks(t, "portal")

	s.Open(server.URL + strings.TrimPrefix(link, s.config.BaseURL))
	s.looks(t, "portal-open")
	press("button.act")
	s.IsTitled("Stride Club · Partner pages · Activity Connect")
	s.looks(t, "portal-home")
	home := server.URL + portal.Path + "/" + partner.ID.String()
	for _, page := range []string{"usage", "refused", "connections", "webhooks", "log", "consent", "secret", "webhooks/address"} {
		if status := s.Open(home + "/" + page); status != http.StatusOK {
			t.Errorf("%s answers %d", page, status)
		}
		s.looks(t, "portal-"+strings.ReplaceAll(page, "/", "-"))
	}
	s.Open(home + "/webhooks/secret")
	press("button.act")
	s.IsTitled("The webhook secret is replaced · Partner pages · Activity Connect")
	s.Open(home + "/webhooks/" + event.String())
	press(".acts a")
	press("button.act")
	if state := pgtest.Value[string](t, s.DB, "select state from webhook_events where event_id = $1", event); state == "failed" {
		t.Error("the event was not queued again")
	}
	s.looks(t, "portal-event")
	press("header .session button")
	s.IsTitled("You have signed out · Partner pages · Activity Connect")
	s.looks(t, "portal-signed-out")
	for _, problem := range s.Problems() {
		t.Error(problem)
	}
}
