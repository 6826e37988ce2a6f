//go:build timed

package standstill_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/brand"
)

var staticPath = regexp.MustCompile(`/static/[^"]+`)

// staticFile is the path of a file that a page needs. It changes with the file.
func staticFile(t *testing.T, v *visitor) string {
	t.Helper()
	page, err := v.page(http.MethodGet, "/sign-in", nil, 200).send(t)
	if err != nil {
		t.Fatal(err)
	}
	return staticPath.FindString(page.body)
}

// logoPath is that of the partner's logo, which it gets here.
func (w *whole) logoPath(t *testing.T) string {
	t.Helper()
	logo, err := brand.ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.App.Clients.Update(t.Context(), w.Partner.ID, func(r *client.Registration) { r.Logo = logo }); err != nil {
		t.Fatal(err)
	}
	return "/static/partners/" + w.Partner.ID.String() + "/" + logo.Name
}

// pageAsks are a request for each page of the browser, with the cookies and the state that it needs. A request that ends what
// another shows comes later.
func (w *whole) pageAsks(t *testing.T) []ask {
	t.Helper()
	user, _ := w.connected(t)
	stranger := w.visitor(t)
	waiting, entering, deciding := w.visitor(t).comes(t), w.visitor(t).comes(t), w.visitor(t).comes(t)
	waiting.typed(t, user)
	code := entering.typed(t, user)
	deciding.signedIn(t, user)
	asks := []ask{
		stranger.ask(http.MethodGet, "/static/{name}", staticFile(t, waiting), nil, 200),
		stranger.ask(http.MethodHead, "/static/{name}", staticFile(t, waiting), nil, 200),
		stranger.ask(http.MethodGet, "/", "/", nil, 303),
		stranger.ask(http.MethodGet, "/oauth/authorize", stranger.authorizationPath(), nil, 303),
		stranger.ask(http.MethodGet, "/static/partners/{client}/{logo}", w.logoPath(t), nil, 200),
		waiting.page(http.MethodGet, "/sign-in", nil, 200),
		waiting.page(http.MethodGet, "/code", nil, 200),
		waiting.page(http.MethodPost, "/sign-in", url.Values{"email": {user.Email}}, 303),
		waiting.page(http.MethodPost, "/new-code", nil, 303),
		entering.page(http.MethodPost, "/code", url.Values{"code": {code}}, 303),
		waiting.page(http.MethodPost, "/restart", nil, 303),
		deciding.page(http.MethodGet, "/consent", nil, 200),
		deciding.page(http.MethodPost, "/consent", url.Values{"decision": {"allow"}}, 303),
	}
	asks = append(asks, w.visitor(t).comes(t).link(t, user)...)
	asks = append(asks, w.visitor(t).comes(t).page(http.MethodGet, "/cancel", nil, 303))
	asks[0].fault, asks[1].fault, asks[2].fault = 200, 200, 303 // they are in memory

	asks = append(asks, w.visitor(t).link(t, user)...)
	waiting, entering = w.visitor(t), w.visitor(t)
	waiting.typed(t, user)
	code = entering.typed(t, user)
	member, leaving := w.visitor(t).signedIn(t, user), w.visitor(t).signedIn(t, user)
	const pattern = "/account/connections/{client}/disconnect"
	path := "/account/connections/" + w.Partner.ID.String() + "/disconnect"
	return append(asks,
		waiting.page(http.MethodGet, "/sign-in", nil, 200),
		waiting.page(http.MethodGet, "/code", nil, 200),
		waiting.page(http.MethodPost, "/sign-in", url.Values{"email": {user.Email}}, 303),
		waiting.page(http.MethodPost, "/new-code", nil, 303),
		entering.page(http.MethodPost, "/code", url.Values{"code": {code}}, 303),
		member.page(http.MethodGet, "", nil, 200),
		member.ask(http.MethodGet, pattern, path, nil, 200),
		member.ask(http.MethodPost, pattern, path, nil, 303),
		member.page(http.MethodPost, "/browsers", url.Values{"browser": {uuid.NewString()}}, 303),
		leaving.page(http.MethodPost, "/sign-out", nil, 303),
	)
}

// page is one of those that belong to the visitor's sign-in.
func (v *visitor) page(method, name string, form url.Values, well int) ask {
	pattern := v.base
	if v.base != "/account" {
		pattern = "/authorize/{request}"
	}
	return v.ask(method, pattern+name, v.base+name, form, well)
}
