package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// TestConsentAgain: whoever is connected already is told so, what each decision changes, and where the connection ends.
func TestConsentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	tokens := f.connect(t, scope.All)
	f.DB.Clock.Advance(3 * 24 * time.Hour)
	v := f.visitor(t)
	base, shown := v.consent(scope.All)
	if got := said(shown.Find("h1")); got != "Renew your connection to Stride & Co?" {
		t.Errorf("heading %q", got)
	}
	if got, want := said(shown.Find(".again")), "Stride & Co can already see this."; !strings.HasPrefix(got, want) {
		t.Errorf("the page says %q", got)
	}
	if got, want := said(shown.Find(".until")), "From 21 November 2026 on, and nothing from before. Stride & Co can’t change anything. You can stop this"; !strings.HasPrefix(got, want) {
		t.Errorf("the terms are %q", got)
	}
	if shown.Find(".reads .tag, .halt, .problem").Length() != 0 {
		t.Error("a change that is none")
	}
	if got := v.Location(v.Post(base+"/consent", "decision", "deny")); !strings.HasSuffix(got, "&error=access_denied") {
		t.Errorf("location = %q", got)
	}
	f.works(t, tokens.RefreshToken, true)
}

// TestConsentAgainAfterARevocation: a connection that cannot read at present says so.
func TestConsentAgainAfterARevocation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	if err := f.OAuth.Revoke(t.Context(), edgetest.Credentials(f.client), f.connect(t, scope.All).RefreshToken); err != nil {
		t.Fatal(err)
	}
	_, shown := f.visitor(t).consent(scope.All)
	if got := said(shown.Find(".again strong")); got != "Stride & Co was connected before, but can see nothing right now." {
		t.Errorf("the page says %q", got)
	}
	if got := said(shown.Find(".until time")); got != "21 November 2026" {
		t.Errorf("from %q", got)
	}
}

// TestDisconnectAtConsent: the page that asks once more changes nothing by itself, and its button ends the connection and the request.
func TestDisconnectAtConsent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base, shown := v.consent(scope.All)
	if link := shown.Find(`a[href$="/disconnect"]`); link.Length() != 0 {
		t.Error("a first visit offers to disconnect")
	}
	if got := v.Location(v.Get(base + "/disconnect")); got != base+"/consent" {
		t.Errorf("without a connection: %q", got)
	}
	tokens := f.connect(t, scope.All)
	link := v.Get(base + "/consent").Find(".ways a")
	if got := link.AttrOr("href", ""); got != base+"/disconnect" || said(link) != "Disconnect Stride & Co" {
		t.Fatalf("%q leads to %q", said(link), got)
	}
	asks := v.Get(base + "/disconnect")
	button := asks.Find("button[name=decision]")
	if got := said(asks.Find("h1")); got != "Disconnect Stride & Co?" || button.AttrOr("value", "") != "disconnect" ||
		asks.Find(`form[action^="`+base+`/consent?"]`).Length() != 1 || asks.Find(`a.other[href="`+base+`/consent"]`).Length() != 1 {
		t.Errorf("heading %q, %d buttons", got, button.Length())
	}
	if policy := asks.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https:") {
		t.Errorf("browsers would stop at the callback: %s", policy)
	}
	f.works(t, tokens.RefreshToken, true)
	tokens = f.connect(t, scope.All)
	if got := v.Location(v.Post(base+"/consent", "decision", "disconnect")); !strings.HasSuffix(got, "&error=access_denied") {
		t.Errorf("location = %q", got)
	}
	f.works(t, tokens.RefreshToken, false)
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from audit_log where action = 'consent.denied'"); n != 1 {
		t.Errorf("%d denials", n)
	}
	v.isError(v.Get(base+"/disconnect"), http.StatusBadRequest, headingDecided)
}

// TestDisconnectAtConsentNeedsASignIn: of a request to which nobody has signed in.
func TestDisconnectAtConsentNeedsASignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	tokens := f.connect(t, scope.All)
	v := f.visitor(t)
	base := v.open(scope.All)
	for _, answer := range []edgetest.Page{v.Get(base + "/disconnect"), v.Post(base+"/consent", "decision", "disconnect")} {
		if got := v.Location(answer); got != base+"/sign-in" {
			t.Errorf("location = %q", got)
		}
	}
	f.works(t, tokens.RefreshToken, true)
}

// works reports whether a refresh token works, which uses it.
func (f *fixture) works(t *testing.T, refreshToken string, want bool) {
	t.Helper()
	if _, err := f.OAuth.Refresh(t.Context(), edgetest.Credentials(f.client), refreshToken); (err == nil) != want {
		t.Errorf("the partner's access: %v, want it to work: %v", err, want)
	}
}

// TestChromiumDisconnectAtConsent: a browser goes from the consent by the page that asks once more back to the partner.
func TestChromiumDisconnectAtConsent(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	tokens := s.connect(t, scope.All)
	s.arrive(t)
	s.signIn(t)
	s.Submit(chromedp.Click(chromedp.CSS(`a[href$="/disconnect"]`)))
	s.lookAt(t, "disconnect")
	s.Submit(chromedp.Click(chromedp.CSS("a.other")))
	s.IsTitled("Renew your connection to Stride & Co? · Activity Connect")
	s.lookAt(t, "second visit")
	s.Submit(chromedp.Click(chromedp.CSS(`a[href$="/disconnect"]`)))
	s.Submit(chromedp.Click(mainButton))
	if got := s.isBack(t, "error"); got != "access_denied" {
		t.Errorf("error = %q, want access_denied", got)
	}
	s.works(t, tokens.RefreshToken, false)
	s.isClean(t)
}
