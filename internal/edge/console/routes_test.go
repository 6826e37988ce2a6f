package console

import (
	"net/http"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/generated"
)

// No request of an operator's browser causes a fault.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	f.Connect(t, partner, scope.All)
	v := f.signedIn(t, edgetest.UnnamedToken)
	generated.Hostile(t, f.server.Config.Handler, []http.Handler{f.handler(t)}, []string{partner.ID.String(), f.User.ID.String(), f.User.Email},
		func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			for _, cookie := range v.Cookies(Path) {
				r.AddCookie(cookie)
			}
		})
}
