package pages

import (
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
)

// TestGetsChangeNothing: whatever opens the addresses of the pages decides, uses up and signs out nothing, neither of a request before and
// after the sign-in nor of the account pages, and no link of an email.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receipts)
	_, _ = f.allow(t) // somebody who has been here before, and whom a receipt was sent
	receipt := f.receipt(t, begun)
	lastOf := func(path string) string { return path[strings.LastIndex(path, "/")+1:] }

	entering, inside := f.visitor(t), f.visitor(t)
	before := entering.open(scope.All)
	link, _ := entering.linked(before)
	ownLink, _ := entering.linked(accountBase)
	inside.enter(email)
	after := inside.open(scope.All)
	inside.signIn(after)
	f.stopMail() // no row of an email changes any more

	for name, visit := range map[string]struct {
		visitor
		request string
	}{"before the sign-ins": {entering, before}, "after them": {inside, after}} {
		t.Run(name, func(t *testing.T) {
			edgetest.Walk{
				Handler: f.server.Config.Handler, Router: f.routes, Pool: f.DB.Pool,
				Values: map[string]string{
					"request": lastOf(visit.request), "link": lastOf(link), "/account/link/{link} link": lastOf(ownLink), "client": f.client.ID.String(),
					"receipt": lastOf(receipt), "name": lastOf(entering.stylesheet()), "logo": "none.png",
				},
				Queries: map[string]string{"/oauth/authorize": f.query(scope.All).Encode()},
				Ask: func(r *http.Request) {
					for _, cookie := range visit.Cookies(r.URL.Path) {
						r.AddCookie(cookie)
					}
				},
				Refuses: []string{"/static/partners/{client}/{logo}", "/.well-known/security.txt"}, // there is none
				Writes:  map[string]string{copyPath + " audit_log": "the log says that the user has taken a copy"},
				Sets: map[string]string{
					"/oauth/authorize " + browserCookie: "the same secret for longer; a browser without one has nothing to lose",
					"/oauth/authorize " + askedCookie:   "for the paths of the new request alone, of which nothing is stored",
				},
			}.ChangesNothing(t)
		})
	}
}
