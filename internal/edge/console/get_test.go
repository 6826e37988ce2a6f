package console

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
)

// TestGetsChangeNothing: the pages of the console and of the portal show and ask, and do nothing themselves. A link to a partner's pages is not
// used up by opening it.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.DB.Webhook(t, partner.ID)
	event := uuid.New()
	f.DB.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		select user_id, $1, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', connect_now(), 'failed', 1, true from connections`, event)
	if _, err := f.Clients.RequestChange(t.Context(), partner.ID, func(r *client.Registration) { r.HomepageURL = "https://ride.example/" }); err != nil {
		t.Fatal(err)
	}
	change, err := f.Clients.ChangeRequest(t.Context(), partner.ID)
	if err != nil {
		t.Fatal(err)
	}
	corrected, err := f.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: f.User.ID, Date: start.Truncate(24 * time.Hour), Delta: 5, Note: "x"})
	if err != nil {
		t.Fatal(err)
	}
	f.config.Changes = portal.Changes{Webhooks: true, Secrets: true}
	server := f.portal(t)
	operator, engineer := f.signedIn(t, edgetest.AdaToken), f.engineer(t, server, partner.ID)
	link := f.link(t, partner.ID)
	sessions, err := f.Portal.Sessions(t.Context(), partner.ID)
	if err != nil {
		t.Fatal(err)
	}
	own, err := NewPortal(f.config)
	if err != nil {
		t.Fatal(err)
	}
	desk := f.handler(t)

	operator.Look = func(edgetest.Page) {} // the preview of the consent page has headers of its own
	for name, edge := range map[string]struct {
		visitor
		router         http.Handler
		base, previews string
	}{"console": {operator, desk, partnersPath, PreviewFiles}, "portal": {engineer, own, portal.Path, PortalPreviewFiles}} {
		t.Run(name, func(t *testing.T) {
			about := edge.base + "/" + partner.ID.String()
			file := func(page string) string { // of the page's style
				href := edge.Get(page).Find("link[rel=stylesheet]").AttrOr("href", "")
				return href[strings.LastIndex(href, "/")+1:]
			}
			walk := edgetest.Walk{
				Handler: telemetry.Requests(telemetry.NewLogger(f.Log, slog.LevelDebug), edge.router), Router: edge.router, Pool: f.DB.Pool,
				Values: map[string]string{
					"partner": partner.ID.String(), "client": partner.ID.String(), "user": f.User.ID.String(), "event": event.String(),
					"session": sessions[0].ID.String(), "link": link[strings.LastIndex(link, "/")+1:], "language": "en",
					"dataset": string(activity.AdjustedSteps), "correction": corrected.ID.String(), "file": "none.png", "name": file(about),
					edge.previews + "{name} name": file(about + "/consent/en"),
				},
				Queries: map[string]string{portal.Path: "signed-out"},
				SignIn:  Path + "/sign-in",
				Refuses: []string{edge.base + "/{partner}/logo/{file}"}, // the partner has none
				Ask: func(r *http.Request) {
					for _, cookie := range edge.Cookies(r.URL.Path) {
						r.AddCookie(cookie)
					}
				},
				Writes: map[string]string{
					auditPath + ".csv audit_log":                                              "the log says who took a copy of it",
					usersPath + "/{user} audit_log":                                           "and who looked at a user's activity and sign-ins",
					usersPath + "/{user}/export audit_log":                                    "or took a copy of all of it",
					usersPath + "/{user}/corrections/{dataset}/{correction}/remove audit_log": "or at a day's total",
				},
			}
			for _, act := range []string{"withdraw", "approve", "refuse"} {
				walk.Queries[edge.base+"/{partner}/changes/"+act] = "request=" + change.ID.String()
			}
			walk.ChangesNothing(t)
		})
	}
}
