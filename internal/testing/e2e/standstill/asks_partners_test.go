//go:build timed

package standstill_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

var (
	seenField   = regexp.MustCompile(`name="seen" value="([^"]+)"`)
	previewFile = regexp.MustCompile(console.PreviewFiles + `([^"]+)`)
)

// partnerPageAsks are a request for each page and act about a partner, which is offboarded at the end.
func (w *whole) partnerPageAsks(t *testing.T, one *clerk) []ask {
	t.Helper()
	logo, err := brand.ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`))
	if err != nil {
		t.Fatal(err)
	}
	name := "Partner " + uuid.NewString()
	partner, _, err := w.App.Clients.Create(t.Context(), client.Registration{
		Name: name, CallbackURL: "https://partner.example/callback", Scopes: scope.All, Policy: client.DefaultPolicy, Logo: logo,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.App.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://127.0.0.1:1/"); err != nil {
		t.Fatal(err)
	}
	event := pgtest.Value[uuid.UUID](t, w.DB, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, queued)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 3, 'refresh_token_revoked', 'failed', true) returning event_id`, partner.ID)
	path := "/partners/" + partner.ID.String()
	const pattern = "/partners/{partner}"
	find := func(path string, what *regexp.Regexp) string {
		t.Helper()
		got, err := one.get("", path).send(t)
		if err != nil || !what.MatchString(got.body) {
			t.Fatalf("%s: %d, %v", path, got.status, err)
		}
		return what.FindStringSubmatch(got.body)[1]
	}
	registration := func(name string) url.Values {
		return url.Values{
			"name": {name}, "callback": {"https://partner.example/callback"}, "daily_steps:read": {"yes"}, "contact-email": {""}, "homepage": {""},
			"privacy-url": {""}, "terms-url": {""}, "requests-per-minute": {"600"}, "burst": {"60"}, "concurrent-reads": {"10"}, "webhook-parallel": {"8"},
		}
	}
	made, changed := registration("Partner "+uuid.NewString()), registration(name)
	made.Set("id", uuid.NewString())
	changed.Set("seen", find(path+"/change", seenField))
	get := func(suffix string) ask { return one.get(pattern+suffix, path+suffix) }
	post := func(suffix string, form url.Values) ask { return one.post(pattern+suffix, path+suffix, form) }
	shown := func(a ask) ask { // the answer is a page
		a.well = http.StatusOK
		return a
	}
	long := func(a ask) ask {
		a.limit = batchLimit
		return a
	}
	const eventPattern = "/webhooks/{event}"
	hook := "/webhooks/" + event.String()
	file := find(path+"/consent/en", previewFile)
	return []ask{
		one.get("/partners", "/partners"), one.get("/partners/new", "/partners/new"), shown(one.post("/partners/new", "/partners/new", made)),
		get(""), get("/usage"), get("/refused"), get("/change"), post("/change", changed),
		get("/consent"), one.get(pattern+"/consent/{language}", path+"/consent/de"), one.get("/consent-page/{name}", "/consent-page/"+file),
		get("/logo"), one.get(pattern+"/logo/{file}", path+"/logo/"+logo.Name), post("/logo/remove", nil), withFile(t, post("/logo", nil), logo.Content),
		get("/secret"), shown(post("/secret", url.Values{"overlap": {"3600"}})),
		get("/disable"), post("/disable", nil), get("/enable"), post("/enable", nil), get("/resume"), shown(post("/resume", nil)),
		get("/webhooks"), get("/webhooks/address"), post("/webhooks/address", url.Values{"url": {"https://127.0.0.1:2/"}}),
		get("/webhooks/secret"), shown(post("/webhooks/secret", nil)),
		get("/webhooks/test"), long(shown(post("/webhooks/test", url.Values{"type": {"activity.updated"}}))),
		one.get(pattern+eventPattern, path+hook), one.get(pattern+eventPattern+"/replay", path+hook+"/replay"),
		one.post(pattern+eventPattern+"/replay", path+hook+"/replay", nil),
		get("/webhooks/replay"), long(post("/webhooks/replay", nil)),
		get("/webhooks/remove"), post("/webhooks/remove", nil),
		get("/revoke"), long(post("/revoke", nil)),
		get("/offboard"), long(post("/offboard", url.Values{"name": {name}})),
	}
}

// withFile is a form with a logo.
func withFile(t *testing.T, a ask, content []byte) ask {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("logo", "logo.svg")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(content) // into memory
	_ = form.Close()
	a.header, a.body = http.Header{"Content-Type": {form.FormDataContentType()}}, body.String()
	return a
}
