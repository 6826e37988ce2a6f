package pages

import (
	"net/http"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/generated"
)

// No request causes a fault: neither a stranger's, nor that of a browser under way, nor that of one in which somebody has signed
// in.
func TestUnforeseenRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	v.signedIn(base)
	v.enter(email)
	n := 0
	generated.Hostile(t, f.server.Config.Handler, []http.Handler{f.routes},
		[]string{f.client.ID.String(), base[len("/authorize/"):], f.User.ID.String()}, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			if n++; n%3 > 0 {
				for _, path := range []string{"/", base} {
					for _, cookie := range v.Cookies(path) {
						r.AddCookie(cookie)
					}
				}
			}
		})
}
