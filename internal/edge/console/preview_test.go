package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
)

// previewed is a partner that has all that users see.
func (f *fixture) previewed(t *testing.T) client.Client {
	t.Helper()
	logo, err := brand.ReadLogo([]byte(circle))
	if err != nil {
		t.Fatal(err)
	}
	partner, _, err := f.config.Clients.Create(t.Context(), client.Registration{
		Name: "Ride & Club", CallbackURL: "https://app.ride.example/callback", Scopes: scope.DailySteps | scope.CyclingDaily,
		Policy: client.DefaultPolicy, HomepageURL: "https://www.ride.example/", PrivacyURL: "https://www.ride.example/privacy", Logo: logo,
	})
	if err != nil {
		t.Fatal(err)
	}
	return partner
}

// The preview shows what users would see, and changes nothing: no form of the page is sent.
func TestChromiumConsentPage(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	partner := s.previewed(t)
	path := pathOf(partner.ID) + "/consent"
	s.at(t, path)
	s.looks(t, "consent")
	for _, tag := range []string{"en", "de", "pl"} {
		s.at(t, path+"/"+tag)
		s.looks(t, "consent-"+tag)
		var lang, heading, text, logo, history string
		s.Evaluate("document.documentElement.lang", &lang)
		s.Evaluate("document.querySelector('h1').innerText", &heading)
		s.Evaluate("document.body.innerText", &text)
		s.Evaluate("document.querySelector('.face img').src + ' ' + document.querySelector('.face img').naturalWidth", &logo)
		s.Evaluate("document.querySelector('main time') ? document.querySelector('main time').dateTime : ''", &history)
		if lang != tag || !strings.Contains(heading, "Ride & Club") {
			t.Errorf("%s: the page is in %s: %s", tag, lang, heading)
		}
		for _, want := range []string{"robin@example.com", "www.ride.example", "app.ride.example", locale.Default().Locale(tag).Text("console.consent.bar")} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page does not say %q", tag, want)
			}
		}
		if !strings.HasSuffix(strings.Split(logo, " ")[0], partner.Logo.Name) || strings.HasSuffix(logo, " 0") {
			t.Errorf("%s: the logo is %s", tag, logo)
		}
		var reads int
		s.Evaluate("document.querySelectorAll('.reads li').length", &reads)
		if reads != 2 {
			t.Errorf("%s: %d scopes", tag, reads)
		}
	}
	var at string
	s.Do(chromedp.Click(chromedp.CSS("button[value=allow]")))
	s.Evaluate("location.pathname", &at)
	if at != path+"/pl" {
		t.Errorf("the form was sent to %s", at)
	}
}

func TestConsentPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.previewed(t)
	v := f.signedIn(t, edgetest.GraceToken)
	path := pathOf(partner.ID) + "/consent"
	if n := v.Get(path).Find(".languages a").Length(); n != len(locale.Default().Tags()) {
		t.Errorf("%d languages", n)
	}
	response, err := v.Client.Get(v.Base + path + "/fr")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := goquery.NewDocumentFromReader(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if policy := response.Header.Get("Content-Security-Policy"); response.StatusCode != http.StatusOK || !strings.HasSuffix(policy, "form-action 'none'") {
		t.Errorf("status %d, policy %q", response.StatusCode, policy)
	}
	// Outward links are the partner's. The account pages are not on this listener: their link is one that leads nowhere.
	for _, link := range shown.Find("main a[href]").EachIter() {
		if href := link.AttrOr("href", ""); !strings.HasPrefix(href, "https://www.ride.example/") {
			t.Errorf("a link leads to %s", href)
		}
	}
	account := shown.Find("main a:not([href])")
	if got := account.Text(); got != locale.Default().Locale("fr").Text("account.name") || account.AttrOr("role", "") != "link" || account.AttrOr("aria-disabled", "") != "true" {
		t.Errorf("the link to the account pages: %q", got)
	}
	for _, none := range []string{path + "/xx", path + "/en/consent", partnersPath + "/x/consent/en", PreviewFiles + "none.css"} {
		v.fails(v.Get(none), http.StatusNotFound, "There is no such page")
	}
	v.fails(v.Get(pathOf(uuid.New())+"/consent/en"), http.StatusNotFound, "There is no such partner")
	for _, form := range []string{path + "/restart", path + "/consent"} { // where the forms would go
		if got := v.Post(form, "decision", "allow"); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", form, got.StatusCode)
		}
	}
	stranger := f.visitor(t)
	if got := stranger.Get(path + "/en"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("without a session: status %d", got.StatusCode)
	}
}
