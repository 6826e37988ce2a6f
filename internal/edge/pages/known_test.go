package pages

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// cookies are the visitor's for the service, by name.
func (v visitor) cookies() map[string]*http.Cookie {
	v.T.Helper()
	return v.Cookies("/")
}

// share gives this browser all that another one keeps of a request, but for a sign-in.
func (v visitor) share(other visitor, base string) {
	v.T.Helper()
	asked := other.Cookies(base)[askedCookie]
	v.Give(base, &http.Cookie{Name: asked.Name, Value: asked.Value, Path: base, Secure: true})
	v.give(other.cookies()[browserCookie])
}

// give puts cookies of another visitor into this browser.
func (v visitor) give(cookies ...*http.Cookie) {
	v.T.Helper()
	for _, cookie := range cookies {
		v.Give("/", &http.Cookie{Name: cookie.Name, Value: cookie.Value, Path: "/", Secure: true})
	}
}

// TestSignInRenewsTheSecret: who knows or has chosen the secret that a browser began with, sees and does nothing after the
// sign-in (OWASP ASVS 5.0, 7.2.4).
func TestSignInRenewsTheSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	victim, thief := f.visitor(t), f.visitor(t)
	base := victim.open(scope.All)
	thief.share(victim, base)
	other := victim.open(scope.DailySteps) // in another tab
	victim.signIn(base)
	if page := victim.Get(base + "/consent"); page.StatusCode != http.StatusOK {
		t.Fatalf("the victim's consent: %d", page.StatusCode)
	}
	if got := thief.Location(thief.Get(base + "/consent")); got != base+"/sign-in" {
		t.Errorf("the thief is sent to %q", got)
	}
	if got := thief.Get(base + "/code"); got.StatusCode != http.StatusOK {
		t.Errorf("the page of the code: %d", got.StatusCode)
	}
	if got := thief.Location(thief.Post(base+"/consent", "decision", "allow")); got != base+"/sign-in" {
		t.Errorf("the thief's decision leads to %q", got)
	}
	victim.signIn(other)
	for _, base := range []string{base, other} {
		if page := victim.Get(base + "/consent"); page.StatusCode != http.StatusOK {
			t.Errorf("after the sign-in of another tab: %d", page.StatusCode)
		}
	}
	victim.Location(victim.Post(base+"/consent", "decision", "allow"))
	// Only the sign-in can repeat the decision. The browser's former secret is worthless.
	if got := thief.Location(thief.Post(base+"/consent", "decision", "allow")); got != base+"/sign-in" {
		t.Errorf("after the victim's decision the thief's leads to %q", got)
	}
	if got := thief.Location(thief.Post(base+"/sign-in", "email", email)); got != base+"/code" {
		t.Fatalf("location = %q", got)
	}
	thief.isError(thief.Post(base+"/code", "code", f.post.Next(t).Code), http.StatusBadRequest, headingDecided)
}

// TestOwnerGetsInWhileOthersGuess: strangers have used up the budget of the address. In a browser in which its owner has
// signed in before, the owner signs in to either page and disconnects.
func TestOwnerGetsInWhileOthersGuess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	owner, stranger := f.visitor(t), f.visitor(t)
	owner.enter(email)
	owner.Location(owner.Post("/account/sign-out"))
	for {
		answer := stranger.Post(stranger.open(scope.All)+"/sign-in", "email", email)
		if answer.StatusCode == http.StatusTooManyRequests {
			break
		}
		f.post.Next(t)
	}
	stranger.isError(stranger.Post("/account/sign-in", "email", email), http.StatusTooManyRequests, "Too many codes")
	owner.consent(scope.All)
	owner.enter(email)

	page := owner.account()
	if got := said(page.Find(".browsers li .this")); got != "This browser" {
		t.Errorf("the list marks %q", got)
	}
	field, _ := page.Find(".browsers input[name=browser]").Attr("value")
	stranger.Location(stranger.Post("/account/browsers", "browser", field)) // not signed in
	if got := owner.account().Find(".browsers li").Length(); got != 1 {
		t.Fatalf("%d browsers are listed, want 1", got)
	}
	if got := owner.Post("/account/browsers", "browser", "x"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("no id: %d", got.StatusCode)
	}
	if got := owner.Location(owner.Post("/account/browsers", "browser", field)); got != "/account?forgotten" {
		t.Fatalf("location = %q", got)
	}
	if got := owner.account().Find(".browsers li").Length(); got != 0 {
		t.Errorf("%d browsers are listed after it was removed", got)
	}
	owner.Location(owner.Post("/account/sign-out"))
	owner.isError(owner.Post("/account/sign-in", "email", email), http.StatusTooManyRequests, "Too many codes")
}

// TestRemovedBrowserIsSignedOut: of the account pages, and of a request in which somebody has signed in there and not decided yet.
func TestRemovedBrowserIsSignedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{})
	thief, owner := f.visitor(t), f.visitor(t)
	base, _ := thief.consent(scope.All)
	thief.enter(email)
	owner.enter(email)
	page := owner.account()
	other := page.Find(".browsers li").FilterFunction(func(_ int, li *goquery.Selection) bool { return li.Find(".this").Length() == 0 })
	if other.Length() != 1 {
		t.Fatalf("%d other browsers", other.Length())
	}
	if got := owner.Location(owner.Post("/account/browsers", "browser", other.Find("input[name=browser]").AttrOr("value", ""))); got != "/account?forgotten" {
		t.Fatalf("location = %q", got)
	}
	if got := thief.Location(thief.Get("/account")); got != "/account/sign-in" {
		t.Errorf("the account pages lead to %q", got)
	}
	thief.isError(thief.Post(base+"/consent", "decision", "allow"), http.StatusBadRequest, headingExpired)
	if got := said(owner.account().Find("h1")); got != "Your connections" {
		t.Errorf("this browser sees %q", got)
	}
}

// TestLastBrowserIsRemoved: the page says so, though it has no list of browsers any more.
func TestLastBrowserIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	v.enter(email)
	field, _ := v.account().Find(".browsers input[name=browser]").Attr("value")
	page := v.Get(v.Location(v.Post("/account/browsers", "browser", field)))
	if got := said(page.Find("[role=status]")); !strings.HasPrefix(got, "That browser is removed.") || page.Find("input[name=browser]").Length() != 0 {
		t.Errorf("the page says %q", said(page.Find("main")))
	}
}

// TestKnownBrowsersOfSeveralUsers: a browser of a family knows four users, each sign-in with a new key.
func TestKnownBrowsersOfSeveralUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	addresses := []string{"a@example.com", "b@example.com", "c@example.com", "d@example.com", "e@example.com"}
	for _, address := range addresses {
		f.newUser(t, address)
	}
	for _, address := range append(addresses, "d@example.com") {
		before := v.cookies()[knownCookie]
		v.enter(address)
		v.Location(v.Post("/account/sign-out"))
		if after := v.cookies()[knownCookie]; after == nil || before != nil && after.Value == before.Value {
			t.Fatal("no new key")
		}
	}
	request := &http.Request{Header: http.Header{}}
	request.AddCookie(v.cookies()[knownCookie])
	keys := knownKeys(request)
	users := map[uuid.UUID]bool{}
	for _, key := range keys {
		users[key.UserID] = true
	}
	if len(keys) != maxKnown || len(users) != maxKnown {
		t.Errorf("%d keys of %d users, want %d", len(keys), len(users), maxKnown)
	}
	for _, value := range []string{"", "AAAA", "====", string(make([]byte, 5000))} {
		request := &http.Request{Header: http.Header{"Cookie": {knownCookie + "=" + value}}}
		if got := knownKeys(request); len(got) != 0 {
			t.Errorf("a cookie of %d bytes has %d keys", len(value), len(got))
		}
	}
}

// The form is filled in with the address of the last sign-in in this browser, for the time of a session, and not after a sign-out.
func TestAddressIsFilledInAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.newUser(t, "bea@example.com")
	v, stranger := f.visitor(t), f.visitor(t)
	filled := func(v visitor, path, want string) {
		t.Helper()
		if got, _ := v.Get(path).Find("input[name=email]").Attr("value"); got != want {
			t.Errorf("%s is filled in with %q, want %q", path, got, want)
		}
	}
	filled(v, v.open(scope.All)+"/sign-in", "")
	v.signIn(v.open(scope.All))
	filled(v, v.open(scope.All)+"/sign-in", email)
	filled(v, "/account/sign-in", email)
	filled(stranger, stranger.open(scope.All)+"/sign-in", "")
	v.enter("bea@example.com")
	base := v.open(scope.All)
	filled(v, base+"/sign-in", "bea@example.com")
	v.Location(v.Post(base+"/sign-in", "email", "cleo@example.com"))
	filled(v, base+"/sign-in", "cleo@example.com")
	filled(v, v.open(scope.All)+"/sign-in", "bea@example.com")
	v.Location(v.Post("/account/sign-out"))
	filled(v, v.open(scope.All)+"/sign-in", "")
	filled(v, "/account/sign-in", "")

	v.enter(email)
	thief := f.visitor(t)
	thief.give(v.cookies()[knownCookie])
	thief.give(&http.Cookie{Name: typedCookie, Value: "1"})
	f.DB.Clock.Advance(account.SessionLifetime)
	filled(v, v.open(scope.All)+"/sign-in", "")
	filled(thief, thief.open(scope.All)+"/sign-in", "")
}

// TestFormSentTwiceSignsInOnce: whichever of two answers to one form the browser keeps, it can go on.
func TestFormSentTwiceSignsInOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	first, second := f.visitor(t), f.visitor(t)
	base := first.open(scope.All)
	second.share(first, base)
	code := first.ask(base, email)
	for _, v := range []visitor{first, second} {
		if got := v.Location(v.Post(base+"/code", "code", code)); got != base+"/consent" {
			t.Fatalf("location = %q", got)
		}
	}
	for _, v := range []visitor{first, second} {
		if page := v.Get(base + "/consent"); page.StatusCode != http.StatusOK {
			t.Errorf("consent: %d", page.StatusCode)
		}
	}
	if err := f.OAuth.SignIn(t.Context(), first.asked(base), first.secret().hash(), [32]byte{}, f.newUser(t, "bea@example.com").ID); err != oauth.ErrRequestEnded {
		t.Errorf("a sign-in of another user: %v", err)
	}
}

// The email of a code says which kind of browser asked and when, and nothing that a browser calls itself otherwise. Neither does the database.
func TestEmailNamesTheBrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.DB.Exec(t, "create table asked as select browser from code_emails") // empty; the emails are gone once they are sent
	if pgtest.OnCluster() {
		return // which has no triggers, and nothing that depends on where the row is
	}
	f.DB.Exec(t, `create function note() returns trigger language plpgsql as 'begin insert into asked values (new.browser); return new; end'`)
	f.DB.Exec(t, "create trigger note before insert or update on code_emails for each row execute function note()")
	const windows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
	for agent, want := range map[string]string{
		windows: "Firefox (Windows)", "": "A browser", "Support, call +49 30 1234 <b>evil</b>": "A browser", "evil/1.0 (Windows NT 10.0)": "A browser",
		windows + " evil\xff" + strings.Repeat("x", 3000): "Firefox (Windows)",
	} {
		v := f.visitor(t)
		v.Header.Set("User-Agent", agent)
		base := v.open(scope.All)
		if got := v.Location(v.Post(base+"/sign-in", "email", email)); got != base+"/code" {
			t.Fatalf("location = %q", got)
		}
		sent := f.post.Next(t)
		for part, text := range map[string]string{"text": sent.Text, "HTML": html.UnescapeString(sent.HTML)} {
			if !strings.Contains(text, "Browser: "+want) || !strings.Contains(text, "Date: ") || strings.Contains(text, "evil") || strings.Contains(text, "+49") {
				t.Errorf("%.60q: the %s says:\n%s", agent, part, text)
			}
		}
	}
	if kinds := pgtest.Value[string](t, f.DB, "select string_agg(distinct browser, ',' order by browser) from asked"); kinds != ",Firefox (Windows)" {
		t.Errorf("the database has %q", kinds)
	}
}
