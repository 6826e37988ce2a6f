package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// cookiesOf are the cookies that an answer sets, by name.
func cookiesOf(a edgetest.Page) map[string]*http.Cookie {
	cookies := map[string]*http.Cookie{}
	for _, cookie := range a.Cookies() {
		cookies[cookie.Name] = cookie
	}
	return cookies
}

func TestAccountSignIn_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	if got := v.Location(v.Get("/account")); got != "/account/sign-in" {
		t.Fatalf("location = %q", got)
	}
	page := v.Get("/account/sign-in")
	if len(page.Cookies()) != 0 {
		t.Error("looking at the sign-in sets a cookie")
	}
	if page.Find("form[method=post] input[name=email][type=email][autocomplete=email][required]").Length() != 1 ||
		page.Find("[name=decision]").Length() != 0 {
		t.Error("the form is not that of an account")
	}
	if got := page.Find("main").Text(); !strings.Contains(got, "You stay signed in for 30 minutes") {
		t.Errorf("the page says %q", got)
	}

	answer := v.Post("/account/sign-in", "email", email)
	if got := v.Location(answer); got != "/account/code" {
		t.Errorf("location = %q", got)
	}
	own := cookiesOf(answer)[signInCookie]
	message := f.post.Next(t)
	if strings.Contains(message.Text, "Stride") || !strings.Contains(message.Text, "To sign in to your connections, enter this code") {
		t.Errorf("email:\n%s", message.Text)
	}
	code := v.Get("/account/code").Document
	if code.Find("form[method=post] input[name=code][autocomplete=one-time-code][inputmode=numeric][required]").Length() != 1 ||
		code.Find("[name=decision], .steps").Length() != 0 {
		t.Error("the form is not that of an account")
	}
	answer = v.Post("/account/code", "code", message.Code)
	if got := v.Location(answer); got != "/account" {
		t.Errorf("location = %q", got)
	}
	cookies := cookiesOf(answer)
	if got := cookies[signInCookie]; got == nil || got.MaxAge >= 0 || got.Value != "" {
		t.Errorf("the secret of the sign-in stays: %v", got)
	}
	want := http.Cookie{
		Name: "__Host-connect-account", Value: cookies[sessionCookie].Value, Path: "/", MaxAge: 1800,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if got := cookies[sessionCookie]; got.String() != want.String() {
		t.Errorf("cookie = %s, want %s", got, &want)
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from sign_ins where not used"); n != 0 {
		t.Error("the sign-in can start another session")
	}

	// The next sign-in is a fresh one.
	v.Location(v.Post("/account/sign-out"))
	if again := cookiesOf(v.Post("/account/sign-in", "email", email))[signInCookie]; again.Value == own.Value {
		t.Error("the secret of the sign-in was used again")
	}
}

// Only a browser that asked for a code has a sign-in, because the cookie is sealed. A cookie that somebody made up costs no statement.
func TestForgedSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.stopMail() // nothing else uses the database
	v := f.visitor(t)
	v.give(&http.Cookie{Name: signInCookie, Value: encoded(make([]byte, 32)), Path: "/"},
		&http.Cookie{Name: typedCookie, Value: "1", Path: "/"})
	before := f.DB.Pool.QueueStats().Acquired
	for _, got := range []string{
		v.Location(v.Get("/account/code")), v.Location(v.Post("/account/code", "code", "123456")), v.Location(v.Post("/account/new-code")),
	} {
		if got != "/account/sign-in" {
			t.Errorf("location = %q", got)
		}
	}
	v.Get("/account/sign-in")
	v.Get("/account/link/" + strings.Repeat("A", 43))
	v.Post("/account/link/" + strings.Repeat("A", 43))
	if n := f.DB.Pool.QueueStats().Acquired - before; n != 0 {
		t.Errorf("%d statements", n)
	}
}

func TestAccountSessionEnds_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.connect(t, scope.All)
	v := f.visitor(t)
	v.enter(email)
	f.DB.Clock.Advance(29 * time.Minute)
	v.account()
	f.DB.Clock.Advance(time.Minute)
	if got := v.Location(v.Get("/account")); got != "/account/sign-in" {
		t.Errorf("location = %q", got)
	}
	for _, answer := range []edgetest.Page{v.Get(f.disconnectPage()), v.Post(f.disconnectPage())} {
		if got := v.Location(answer); got != "/account/sign-in?ended" {
			t.Errorf("location = %q", got)
		}
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from connections where state = 'authorized'"); n != 1 {
		t.Error("disconnected without a session")
	}
	if got := said(v.Get("/account/sign-in?ended").Find("[role=status]")); !strings.HasPrefix(got, "Your session has ended") {
		t.Errorf("the page says %q", got)
	}
}

func TestAccountSignOut_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v, other := f.visitor(t), f.visitor(t)
	v.enter(email)
	other.enter(email)
	stolen := f.visitor(t)
	service, err := url.Parse(at("/"))
	if err != nil {
		t.Fatal(err)
	}
	stolen.Client.Jar.SetCookies(service, v.Client.Jar.Cookies(service))
	stolen.account()

	for range 2 { // the form is sent again
		answer := v.Post("/account/sign-out")
		if got := v.Location(answer); got != "/account/sign-in?signed-out" {
			t.Errorf("location = %q", got)
		}
		if got := cookiesOf(answer)[sessionCookie]; got == nil || got.MaxAge >= 0 {
			t.Errorf("the cookie stays: %v", got)
		}
	}
	if got := said(v.Get("/account/sign-in?signed-out").Find("[role=status]")); got != "You’re signed out." {
		t.Errorf("the page says %q", got)
	}
	if got := stolen.Location(stolen.Get("/account")); got != "/account/sign-in" {
		t.Errorf("a copy of the cookie leads to %q", got)
	}
	other.account()
	v.isError(v.Post("/account/sign-out", "x", "y"), http.StatusBadRequest, headingForm)
}

// TestAccountSteps: whoever goes back, reloads or skips a step is led to where the sign-in stands.
func TestAccountSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	leads := func(a edgetest.Page, to string) {
		t.Helper()
		if got := v.Location(a); got != to {
			t.Errorf("location = %q, want %q", got, to)
		}
	}
	leads(v.Get("/account/code"), "/account/sign-in?not-begun")
	leads(v.Post("/account/code", "code", "123456"), "/account/sign-in?not-begun")
	leads(v.Post("/account/new-code"), "/account/sign-in?not-begun")
	first := v.ask("/account", email)
	if got, _ := v.Get("/account/sign-in").Find("input[name=email]").Attr("value"); got != email {
		t.Errorf("going back to the address shows %q", got)
	}
	leads(v.Post("/account/new-code"), "/account/code?again")
	code := f.post.Next(t).Code
	if first != code {
		leads(v.Post("/account/code", "code", first), "/account/code?older")
	}
	for range 2 { // the form is sent again
		leads(v.Post("/account/code", "code", code), "/account")
	}
	leads(v.Get("/account/sign-in"), "/account")
	leads(v.Get("/account/code"), "/account")
	leads(v.Post("/account/sign-in", "email", "bea@example.com"), "/account")
	leads(v.Post("/account/new-code"), "/account")
	if got := v.Post("/account?again").StatusCode; got != http.StatusNotFound {
		t.Errorf("status = %d", got)
	}
}

// TestAccountWithoutCookies: a browser that keeps none, or has dropped that of the sign-in by the time of the code, is told so.
func TestAccountWithoutCookies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	code := func() edgetest.Page { return v.Get(v.Location(v.forget("/account/sign-in", "email", email))) }
	late := func() edgetest.Page {
		code := v.ask(accountBase, email)
		v.Client.Jar = f.visitor(t).Client.Jar
		return v.Post("/account/code", "code", code)
	}
	for name, after := range map[string]func() edgetest.Page{"at once": code, "late": late} {
		page := v.Get(v.Location(after()))
		if got := said(page.Find("[role=status]")); !strings.Contains(got, "doesn’t keep cookies") || page.Find("input[name=email]").Length() != 1 {
			t.Errorf("%s: the page says %q", name, said(page.Find("main")))
		}
	}
}

// TestAccountCookies: a cookie that the service did not make gives no session.
func TestAccountCookies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for name, value := range map[string]string{
		"empty": "", "no base64": "not a session", "short": "AAAA", "nobody's": strings.Repeat("A", 64), "long": strings.Repeat("A", 4000),
	} {
		forged := f.visitor(t)
		forged.Header.Set("Cookie", sessionCookie+"="+value)
		if got := forged.Location(forged.Get("/account")); got != "/account/sign-in" {
			t.Errorf("%s: location = %q", name, got)
		}
	}
}

// TestAccountOtherBrowser: a code and a sign-in serve the browser that asked, however well another one knows the code.
func TestAccountOtherBrowser_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.newUser(t, "bea@example.com")
	v, other := f.visitor(t), f.visitor(t)
	code := v.ask("/account", email)
	for other.ask("/account", "bea@example.com") == code { // once in a million
	}
	if got := other.Location(other.Post("/account/code", "code", code)); got != "/account/code?wrong" {
		t.Errorf("the code in another browser leads to %q", got)
	}
	if got := v.Location(v.Post("/account/code", "code", code)); got != "/account" {
		t.Errorf("location = %q", got)
	}
}

// TestAccountForgedForms: no form of the account pages is taken from another site, whether the browser tells of it by
// Sec-Fetch-Site or, an older one, by Origin alone.
func TestAccountForgedForms_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.connect(t, scope.All)
	v := f.visitor(t)
	v.enter(email)
	forms := map[string][]string{
		"/account/sign-in": {"email", email}, "/account/code": {"code", "123456"}, "/account/new-code": nil,
		"/account/sign-out": nil, f.disconnectPage(): nil,
	}
	for name, header := range map[string]http.Header{
		"another site":      {"Sec-Fetch-Site": {"cross-site"}},
		"another subdomain": {"Sec-Fetch-Site": {"same-site"}},
		"an older browser":  {"Origin": {"https://" + partnerHost}},
		"a sandboxed frame": {"Origin": {"null"}},
	} {
		v.Header = header
		for path, form := range forms {
			answer := v.Post(path, form...)
			if v.isError(answer, http.StatusForbidden, headingForm); len(answer.Cookies()) != 0 {
				t.Errorf("%s, %s: sets a cookie", name, path)
			}
		}
	}
	v.account() // still signed in
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from connections where state = 'authorized'"); n != 1 {
		t.Error("a forged form has disconnected")
	}
}

// TestAccountAndAuthorizationSignInsAreApart: neither sign-in serves for the other (specification 5.3).
func TestAccountAndAuthorizationSignInsAreApart_5_3(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	v.enter(email)
	base := v.open(scope.All)
	if got := v.Location(v.Get(base + "/consent")); got != base+"/sign-in" {
		t.Errorf("signed in to the account, the consent leads to %q", got)
	}
	other := f.visitor(t)
	base = other.open(scope.All)
	other.signIn(base)
	if got := other.Location(other.Get("/account")); got != "/account/sign-in" {
		t.Errorf("signed in for a request, the account leads to %q", got)
	}
	code := other.ask("/account", email)
	base = other.open(scope.All)
	for other.ask(base, email) == code { // once in a million
	}
	if got := other.Location(other.Post(base+"/code", "code", code)); got != base+"/code?wrong" {
		t.Errorf("the account's code leads to %q", got)
	}
}

// TestAccountUnknownAddress_4: "the pages and their timing are the same for an address that has no account".
func TestAccountUnknownAddress_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 2, CodesPerNetwork: 30})
	f.newUser(t, "known@example.com")
	known := f.visitor(t).signInSeen("/account", "known@example.com")
	if diff := cmp.Diff(known, f.visitor(t).signInSeen("/account", "stranger@example.org")); diff != "" {
		t.Errorf("known and unknown address differ:\n%s", diff)
	}
	if last := known[len(known)-1]; last.Status != http.StatusTooManyRequests || !strings.Contains(last.Page, `href="BASE/code"`) ||
		strings.Contains(last.Page, "company that sent you") {
		t.Errorf("too many codes: %d\n%s", last.Status, last.Page)
	}
}

// TestAccountLog: one event for each request, which tells what happened and to nobody whom.
func TestAccountLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.connect(t, scope.All)
	v := f.visitor(t)
	code := v.ask("/account", email)
	v.Post("/account/code", "code", otherThan(code))
	session := cookiesOf(v.Post("/account/code", "code", code))[sessionCookie].Value
	v.account()
	v.Location(v.Post(f.disconnectPage()))
	v.Location(v.Post("/account/sign-out"))
	f.server.Close() // every event is written

	log := f.Log.String()
	for _, want := range []string{
		`"operation":"/account"`, `"operation":"/account/code"`, `"operation":"/account/sign-out"`,
		`"operation":"/account/connections/{client}/disconnect"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	for name, secret := range map[string]string{
		"address": email, "code of the email": code, "session": session, "user": f.User.ID.String(),
		"partner": f.client.ID.String(), "cookie": sessionCookie,
	} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds the %s", name)
		}
	}
	if strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("errors in the log:\n%s", log)
	}
}
