package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func texts(s *goquery.Selection) []string {
	return s.Map(func(_ int, one *goquery.Selection) string { return strings.Join(strings.Fields(one.Text()), " ") })
}

// TestConsentSaysIt: who, what, from which day, all or nothing, how to stop it.
func TestConsentSaysIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.DB.SetTime(time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)) // the 22nd in Berlin
	v := f.visitor(t)
	_, answer := v.consent(scope.All)
	page := answer.Document
	if got, want := texts(page.Find("h1, .company .site")), []string{
		"Let Stride & Co see your activity?", "www.partner.example (opens in a new tab)",
	}; !cmp.Equal(got, want) {
		t.Errorf("who = %q", got)
	}
	if got, _ := page.Find(".company a").Attr("href"); got != homepage {
		t.Errorf("homepage = %q", got)
	}
	if got, want := texts(page.Find(".reads strong")), []string{"Your steps", "Your cycling distance", "Each of your rides"}; !cmp.Equal(got, want) {
		t.Errorf("what = %q", got)
	}
	const terms = "From 22 November 2026 on, and nothing from before. Stride & Co can’t change anything. " +
		"You can stop this at any time in Your connections (opens in a new tab). Stride & Co keeps what it has already seen."
	if got := said(page.Find(".until")); got != terms {
		t.Errorf("terms = %q", got)
	}
	day := page.Find(".until time")
	if got, _ := day.Attr("datetime"); day.Text() != "22\u00a0November 2026" || got != "2026-11-22" {
		t.Errorf("from %q (%s), want the user's own calendar day", day.Text(), got)
	}
	if got := texts(page.Find(".decision .whole")); !cmp.Equal(got, []string{"You allow all of this or none of it."}) {
		t.Errorf("all or nothing = %q", got)
	}
	if got, want := texts(page.Find("main .address")), []string{email, partnerHost}; !cmp.Equal(got, want) {
		t.Errorf("signed in and going back to = %q", got)
	}
}

func TestConsentNamesOnlyWhatIsAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for scopes, want := range map[scope.Set][]string{
		scope.DailySteps:        {"Your steps"},
		scope.CyclingDaily:      {"Your cycling distance"},
		scope.CyclingActivities: {"Each of your rides"},
	} {
		v := f.visitor(t)
		base := v.open(scopes)
		v.signedIn(base)
		page := v.Get(base + "/consent")
		if diff := cmp.Diff(want, texts(page.Find(".reads strong"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scopes, diff)
		}
		if page.Find(".whole").Length() != 0 {
			t.Errorf("%s: all or nothing of one thing", scopes)
		}
	}
}

// TestConsentOfAReconnection22: the same scopes keep the day from which on the connection reads.
func TestConsentOfAReconnection_2_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.connect(t, scope.All)
	f.DB.Clock.Advance(5 * 24 * time.Hour)
	v := f.visitor(t)
	_, answer := v.consent(scope.All)
	if got := answer.Find(".until time").Text(); got != "21\u00a0November 2026" {
		t.Errorf("from %q, want the day of the first consent", got)
	}
}

// TestScopeMismatch31: Allow is disabled, the page says to disconnect first, and a forged Allow is refused.
func TestScopeMismatch_3_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.connect(t, scope.DailySteps|scope.CyclingDaily)
	v := f.visitor(t)
	base, shown := v.consent(scope.CyclingDaily | scope.CyclingActivities)
	says := func(a edgetest.Page, status int) {
		t.Helper()
		if a.StatusCode != status || a.Find("button[name=decision][value=allow][disabled][aria-describedby=problem]").Length() != 1 {
			t.Errorf("status = %d, want %d and Allow disabled", a.StatusCode, status)
		}
		problem := a.Find("#problem[role=alert]")
		if got := said(problem); !strings.Contains(got, "disconnect it first and connect again") {
			t.Errorf("problem = %q", got)
		}
		if got, want := texts(a.Find(".reads li")), []string{
			"Your steps No longer One total a day.", "Your cycling distance One total a day.",
			"Each of your rides New Date, start, end and distance, but not where you rode.",
		}; !cmp.Equal(got, want) {
			t.Errorf("what would change = %q", got)
		}
		if a.Find("button[name=decision][value=deny]:not([disabled])").Length() != 1 {
			t.Error("there is no way back")
		}
	}
	says(shown, http.StatusOK)
	says(v.Post(base+"/consent", "decision", "allow"), http.StatusConflict)
	if n := pgtest.Value[int64](t, f.DB, "select version from connections"); n != 1 {
		t.Errorf("version = %d, want the connection unchanged", n)
	}
	if got := v.Location(v.Post(base+"/consent", "decision", "deny")); !strings.HasSuffix(got, "&error=access_denied") {
		t.Errorf("location = %q", got)
	}
}

// TestPartnerIsText: what a partner registered is text on every page and in the email, and its homepage leads only to
// the web.
func TestPartnerIsText(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.client = f.newClient(t, `<script>alert("é")</script>`)
	f.DB.Exec(t, "update clients set homepage_url = 'javascript:alert(1)' where client_id = $1", f.client.ID)
	v := f.visitor(t)
	base := v.open(scope.All)
	pages := map[string]edgetest.Page{"sign-in": v.Get(base + "/sign-in")}
	code := v.ask(base, email)
	pages["code"] = v.Get(base + "/code")
	v.Location(v.Post(base+"/code", "code", code))
	pages["consent"] = v.Get(base + "/consent")
	for name, page := range pages {
		if page.Find("script").Length() != 0 || strings.Contains(page.Source, "javascript:") {
			t.Errorf("%s: the partner's name or homepage is more than text", name)
		}
		if !strings.Contains(page.Find("body").Text(), `<script>alert("é")</script>`) {
			t.Errorf("%s does not name the partner", name)
		}
	}
}

// TestMismatchIsAWayOn: the user disconnects on the page that cannot be allowed, and goes back to the partner.
func TestMismatchIsAWayOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	tokens := f.connect(t, scope.DailySteps)
	v := f.visitor(t)
	base, _ := v.consent(scope.All)
	if got := v.Location(v.Post(base+"/consent", "decision", "disconnect")); !strings.HasSuffix(got, "&error=access_denied") {
		t.Errorf("location = %q", got)
	}
	if _, err := f.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
		t.Error("the connection is still there")
	}
	v.isError(v.Get(base+"/consent"), http.StatusBadRequest, headingDecided)
	again, page := v.consent(scope.All)
	if page.Find("button[value=allow]:not([disabled])").Length() != 1 {
		t.Error("the next request cannot be allowed")
	}
	if got := v.Post(again+"/consent", "decision", "disconnect"); got.StatusCode != http.StatusConflict {
		t.Errorf("without a connection: status %d", got.StatusCode)
	}
}

// TestNotYou: somebody else signs in to the request, and the first user has nothing more to do with it.
func TestNotYou(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.newUser(t, "bea@example.com")
	v := f.visitor(t)
	base, page := v.consent(scope.All)
	form := page.Find("form.you")
	if action, _ := form.Attr("action"); action != base+"/restart" || said(form.Find("button")) != "Not you?" {
		t.Fatalf("the form goes to %q", action)
	}
	if got := v.Location(v.Post(base + "/restart")); got != base+"/sign-in" {
		t.Fatalf("location = %q", got)
	}
	if got := v.Location(v.Get(base + "/consent")); got != base+"/sign-in" {
		t.Errorf("the consent leads to %q", got)
	}
	for _, form := range []string{base, v.open(scope.All)} {
		if got, _ := v.Get(form + "/sign-in").Find("input[name=email]").Attr("value"); got != "" {
			t.Errorf("the form is filled in with %q, who the user is not", got)
		}
	}
	code := v.ask(base, "bea@example.com")
	v.Location(v.Post(base+"/code", "code", code))
	if got := said(v.Get(base + "/consent").Find(".you .address")); got != "bea@example.com" {
		t.Errorf("signed in as %q", got)
	}
	v.Location(v.Post(base+"/consent", "decision", "allow"))
	v.isError(v.Post(base+"/restart"), http.StatusBadRequest, headingDecided)
}

// TestPageOfAnotherUser: in another tab somebody else has signed in since the page was shown. Its button does nothing for them, and the browser shows
// who is asked now.
func TestPageOfAnotherUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	other := *f
	other.User = f.newUser(t, "bea@example.com")
	bea := other.User
	v := f.visitor(t)
	form := func(page edgetest.Page) string { return page.Find("form:has(button.act)").AttrOr("action", "none") }
	change := func(base string) {
		v.Location(v.Post(base + "/restart"))
		v.Location(v.Post(base+"/code", "code", v.ask(base, bea.Email)))
	}

	base, page := v.consent(scope.All)
	allow := form(page)
	change(base)
	if got := v.Location(v.Post(allow, "decision", "allow")); got != base+"/consent" {
		t.Errorf("Ada's consent leads to %q", got)
	}
	page = v.Get(base + "/consent")
	if got := said(page.Find(".you .address")); got != bea.Email {
		t.Errorf("the page is for %q", got)
	}
	if got := v.Location(v.Post(form(page), "decision", "allow")); !strings.HasPrefix(got, callback) {
		t.Errorf("Bea's consent leads to %q", got)
	}

	f.connect(t, scope.All)
	tokens := other.connect(t, scope.All)
	base, _ = v.consent(scope.All)
	end := form(v.Get(base + "/disconnect"))
	change(base)
	if got := v.Location(v.Post(end, "decision", "disconnect")); got != base+"/consent" {
		t.Errorf("Ada's end at a consent leads to %q", got)
	}

	v.enter(email)
	end = form(v.Get(f.disconnectPage()))
	v.Location(v.Post("/account/sign-out"))
	v.enter(bea.Email)
	if got := v.Location(v.Post(end)); got != "/account" {
		t.Errorf("Ada's end leads to %q", got)
	}
	if _, err := f.OAuth.Authenticate(t.Context(), tokens.AccessToken); err != nil {
		t.Errorf("Bea's connection has ended: %v", err)
	}
	v.Location(v.Post(form(v.Get(f.disconnectPage()))))
	if _, err := f.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
		t.Error("Bea's own page does not end it")
	}

	remove := v.Get("/account").Find("form[action^='/account/browsers']")
	v.Location(v.Post("/account/sign-out"))
	v.enter(email)
	elsewhere := f.visitor(t)
	elsewhere.enter(email)
	if got := v.Location(v.Post(remove.AttrOr("action", "none"), "browser", remove.Find("input").AttrOr("value", ""))); got != "/account" {
		t.Errorf("the removal of Bea's browser leads to %q", got)
	}
	if page := elsewhere.Get("/account"); page.StatusCode != http.StatusOK {
		t.Error("it ends Ada's other sessions")
	}
}

// TestNotYouEndsTheSignIn: whoever is at the browser then cannot go on as the first user with the link or the code of that sign-in. The link is
// in the browser's history.
func TestNotYouEndsTheSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for _, by := range []string{"link", "code"} {
		v := f.visitor(t)
		base := v.open(scope.All)
		link, code := v.linked(base)
		enter := map[string]func() edgetest.Page{
			"link": func() edgetest.Page { return v.Post(link) },
			"code": func() edgetest.Page { return v.Post(base+"/code", "code", code) },
		}
		if got := v.Location(enter[by]()); got != base+"/consent" {
			t.Fatalf("the %s leads to %q", by, got)
		}
		v.Location(v.Post(base + "/restart"))
		if got := v.Get(link); got.Find("main form .act").Length() != 0 || strings.Contains(got.Text(), email) {
			t.Errorf("signed in by the %s: the page of the link offers to sign in: %q", by, said(got.Find("main")))
		}
		for again, send := range enter {
			if got := send(); got.Header.Get("Location") == base+"/consent" {
				t.Errorf("signed in by the %s: the %s signs in again", by, again)
			}
		}
		if got := v.Location(v.Get(base + "/consent")); got != base+"/sign-in" {
			t.Errorf("signed in by the %s: the consent leads to %q", by, got)
		}
		v.signIn(base) // with a new code
	}
}
