package pages

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/scope"
)

const (
	lightDrawing   = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><path d="M0 0h40v20H0z" fill="#5b21b6"/></svg>`
	darkDrawing    = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><path d="M0 0h40v20H0z" fill="#c4b5fd"/></svg>`
	partnerDrawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20"><circle cx="10" cy="10" r="9" fill="#d97706"/></svg>`
)

func logoOf(t *testing.T, drawing string) brand.Logo {
	t.Helper()
	logo, err := brand.ReadLogo([]byte(drawing))
	if err != nil {
		t.Fatal(err)
	}
	return logo
}

// pngLogo is a logo that goes with emails, too.
func pngLogo(t *testing.T, width, height int) brand.Logo {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return logoOf(t, file.String())
}

// acme is an operator with everything that a brand can have.
func acme(t *testing.T) brand.Brand {
	t.Helper()
	color, err := brand.ParseColor("#5b21b6")
	if err != nil {
		t.Fatal(err)
	}
	return brand.Brand{
		Name: "Acme Move", Logo: logoOf(t, lightDrawing), LogoDark: logoOf(t, darkDrawing), Icon: pngLogo(t, 64, 64), Color: color,
		SupportURL: "mailto:help@acme.example", PrivacyURL: "https://acme.example/privacy",
	}
}

// branded gives the partner of a fixture a logo and its addresses.
func (f *fixture) branded(t *testing.T) {
	t.Helper()
	logo := logoOf(t, partnerDrawing)
	if _, err := f.Clients.Update(t.Context(), f.client.ID, func(r *client.Registration) {
		r.Logo, r.PrivacyURL, r.TermsURL = logo, "https://partner.example/privacy", "https://partner.example/terms"
	}); err != nil {
		t.Fatal(err)
	}
}

// TestBothSides: each page shows whose it is, and the consent also who asks, with what both want users to read.
func TestBothSides(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits, acme(t))
	f.branded(t)
	v := f.visitor(t)
	base, consent := v.consent(scope.All)
	for name, page := range map[string]*goquery.Document{"consent": consent.Document, "error": v.Get("/nothing").Document} {
		links := hrefs(page.Find("footer a"))
		if want := []string{"Help: mailto:help@acme.example", "Privacy policy: https://acme.example/privacy"}; !slices.Equal(links, want) {
			t.Errorf("%s: the footer links to %q", name, links)
		}
		v.served(page.Find("header img"), "src", "image/svg+xml", "#5b21b6")
		v.served(page.Find("header source"), "srcset", "image/svg+xml", "#c4b5fd")
		v.served(page.Find("link[rel=icon]"), "href", "image/png", "IHDR")
		v.served(page.Find("link[rel=stylesheet]").Last(), "href", "text/css; charset=utf-8", "--main: #5b21b6;")
	}
	v.served(consent.Find(".company .sides img").First(), "src", "image/png", "IHDR")
	v.served(consent.Find(".company .sides img").Last(), "src", "image/svg+xml", "#d97706")
	if links := hrefs(consent.Find(".site a")); !slices.Equal(links, []string{
		"www.partner.example (opens in a new tab): " + homepage,
		"Privacy policy (opens in a new tab): https://partner.example/privacy",
		"Terms (opens in a new tab): https://partner.example/terms",
	}) {
		t.Errorf("of the partner there is %q", links)
	}
	f.connect(t, scope.DailySteps)
	v.enter(email)
	v.served(v.account().Find(".company img"), "src", "image/svg+xml", "#d97706")

	// Another logo has another address, and what was is gone.
	logo := consent.Find(".company .sides img").Last().AttrOr("src", "")
	for _, path := range []string{strings.Replace(logo, "logo-", "logo-0", 1), "/static/partners/x/" + path.Base(logo), "/static/partners/" + uuid.NewString() + "/" + path.Base(logo),
		path.Dir(logo) + "/%00", "/static/partners/%00/" + path.Base(logo)} {
		v.isError(v.Get(path), http.StatusNotFound, headingMissing)
	}
	if _, err := f.Clients.Update(t.Context(), f.client.ID, func(r *client.Registration) { r.Logo = brand.Logo{} }); err != nil {
		t.Fatal(err)
	}
	v.isError(v.Get(logo), http.StatusNotFound, headingMissing)
	if page := v.Get(base + "/consent").Document; page.Find(".company .sides img").Length() != 1 || said(page.Find(".sides > .face").Last()) != "S" {
		t.Errorf("without a logo the partner is shown as %q", said(page.Find(".sides")))
	}
}

// TestOwnFace: what stands for the operator fits into the square beside the partner's, and into emails.
func TestOwnFace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change         func(*brand.Brand)
		onPage, inMail string
	}{
		"an icon":                {func(*brand.Brand) {}, ".icon img", "img"},
		"a logo that is no icon": {func(b *brand.Brand) { b.Icon = brand.Logo{} }, ".letter", "span"},
		"a square logo":          {func(b *brand.Brand) { b.Icon, b.Logo = brand.Logo{}, logoOf(t, partnerDrawing) }, ".face picture", "span"},
		"a color":                {func(b *brand.Brand) { *b = brand.Brand{Name: b.Name, Color: b.Color} }, ".letter", "span"},
		"nothing":                {func(b *brand.Brand) { *b = brand.Brand{} }, ".mark", "img"},
	} {
		of := acme(t)
		c.change(&of)
		handler, err := Preview(of, nil)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{"/en/consent": c.onPage, "/en/email": c.inMail} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			page, err := goquery.NewDocumentFromReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if shown := page.Find(".sides > :first-child, body > div > p:first-child"); shown.Find(want).AddSelection(shown.Filter(want)).Length() != 1 {
				t.Errorf("%s, %s: no %s stands for the operator", name, path, want)
			}
		}
	}
}

func hrefs(links *goquery.Selection) (list []string) {
	for _, link := range links.EachIter() {
		list = append(list, said(link)+": "+link.AttrOr("href", ""))
	}
	return list
}

// served says that the file of an element is there, for ever, and harmless.
func (v visitor) served(element *goquery.Selection, attribute, mediaType, content string) {
	v.T.Helper()
	path := element.AttrOr(attribute, "")
	file := v.Get(path)
	if file.StatusCode != http.StatusOK || file.Header.Get("Content-Type") != mediaType || !strings.Contains(file.Source, content) ||
		!strings.Contains(file.Header.Get("Cache-Control"), "immutable") {
		v.T.Errorf("%q: status %d, %s, %s: %.200s", path, file.StatusCode, file.Header.Get("Content-Type"), file.Header.Get("Cache-Control"), file.Source)
	}
	if mediaType == "image/svg+xml" && !strings.Contains(file.Header.Get("Content-Security-Policy"), "; sandbox") {
		v.T.Errorf("%s can be opened with the power of our origin", path)
	}
}
