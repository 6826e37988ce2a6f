package pages

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// forgetful is the jar of a browser that drops an answer: a second click cancels the first one.
type forgetful struct{ http.CookieJar }

func (forgetful) SetCookies(*url.URL, []*http.Cookie) {}

// forget has the browser send a form, and drop the answer with its cookies.
func (v visitor) forget(path string, fields ...string) edgetest.Page {
	v.T.Helper()
	jar := v.Client.Jar
	v.Client.Jar = forgetful{jar}
	defer func() { v.Client.Jar = jar }()
	return v.Post(path, fields...)
}

var anyCode = regexp.MustCompile(`code=svcc_[^&]+`)

// result is what the user sees of an answer. Codes differ.
func result(page edgetest.Page) string {
	return page.Status + " " + anyCode.ReplaceAllString(page.Header.Get("Location"), "code=") + " " + said(page.Find("h1"))
}

// TestFormsTwice: each form has the same result if it is sent again, whether the browser has dropped the first answer or kept its cookies.
func TestFormsTwice(t *testing.T) {
	t.Parallel()
	const toCallback = "303 See Other " + callback + "&state=st~ate-with%2Bodd%2F%26%3D%25chars%3B%27%22%3C%3E&"
	for name, form := range map[string]struct {
		prepare func(t *testing.T, f *fixture, v visitor) (path string, fields []string)
		want    string // where a request's base is BASE
	}{
		"allow": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base, _ := v.consent(scope.All)
			return base + "/consent", []string{"decision", "allow"}
		}, toCallback + "code="},
		"allow again": {func(t *testing.T, f *fixture, v visitor) (string, []string) {
			f.connect(t, scope.All)
			base, _ := v.consent(scope.All)
			return base + "/consent", []string{"decision", "allow"}
		}, toCallback + "code="},
		"deny": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base, _ := v.consent(scope.All)
			return base + "/consent", []string{"decision", "deny"}
		}, toCallback + "error=access_denied"},
		"disconnect": {func(t *testing.T, f *fixture, v visitor) (string, []string) {
			f.connect(t, scope.DailySteps)
			base, _ := v.consent(scope.All)
			return base + "/consent", []string{"decision", "disconnect"}
		}, toCallback + "error=access_denied"},
		"cancel at the address": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			return v.open(scope.All) + "/consent", []string{"decision", "deny"}
		}, toCallback + "error=access_denied"},
		"cancel at the code": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base := v.open(scope.All)
			v.ask(base, email)
			return base + "/consent", []string{"decision", "deny"}
		}, toCallback + "error=access_denied"},
		"not you": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base, _ := v.consent(scope.All)
			return base + "/restart", nil
		}, "303 See Other BASE/sign-in"},
		"address": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			return v.open(scope.All) + "/sign-in", []string{"email", email}
		}, "303 See Other BASE/code"},
		"code": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base := v.open(scope.All)
			return base + "/code", []string{"code", v.ask(base, email)}
		}, "303 See Other BASE/consent"},
		"code at the last attempt": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base := v.open(scope.All)
			code := v.ask(base, email)
			wrong := "000000"
			if code == wrong {
				wrong = "000001"
			}
			for range account.Attempts - 1 {
				v.Post(base+"/code", "code", wrong)
			}
			return base + "/code", []string{"code", code}
		}, "303 See Other BASE/consent"},
		"new code": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			base := v.open(scope.All)
			v.ask(base, email)
			return base + "/new-code", nil
		}, "303 See Other BASE/code?again"},
		"link": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			link, _ := v.linked(v.open(scope.All))
			return link, nil
		}, "303 See Other BASE/consent"},
		"code of the account": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			return accountBase + "/code", []string{"code", v.ask(accountBase, email)}
		}, "303 See Other /account"},
		"link of the account": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			link, _ := v.linked(accountBase)
			return link, nil
		}, "303 See Other /account"},
		"sign out": {func(_ *testing.T, _ *fixture, v visitor) (string, []string) {
			v.enter(email)
			return "/account/sign-out", nil
		}, "303 See Other /account/sign-in?signed-out"},
		"disconnect a partner": {func(t *testing.T, f *fixture, v visitor) (string, []string) {
			f.connect(t, scope.All)
			v.enter(email)
			return f.disconnectPage(), nil
		}, "303 See Other /account?disconnected=CLIENT"},
		"forget a browser": {func(t *testing.T, f *fixture, v visitor) (string, []string) {
			f.visitor(t).enter(email)
			v.enter(email)
			return "/account/browsers", []string{"browser", v.account().Find(".browsers input[name=browser]").First().AttrOr("value", "")}
		}, "303 See Other /account?forgotten"},
		"language": {func(*testing.T, *fixture, visitor) (string, []string) {
			return "/account/language", []string{"language", "de"}
		}, "303 See Other /account"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, limits)
			v := f.visitor(t)
			path, fields := form.prepare(t, f, v)
			base, _, _ := strings.Cut(strings.TrimPrefix(path, "/authorize/"), "/")
			want := strings.NewReplacer("BASE", "/authorize/"+base, "CLIENT", f.client.ID.String()).Replace(form.want)
			for _, answer := range []edgetest.Page{v.forget(path, fields...), v.Post(path, fields...), v.Post(path, fields...)} {
				if got := strings.TrimSpace(result(answer)); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}

// TestSignInTwice: of a code that was sent twice there is one session, one known browser and no receipt of another one.
func TestSignInTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.visitor(t).enter(email) // the first sign-in of all has no receipt
	v := f.visitor(t)
	code := v.ask(accountBase, email)
	v.forget(accountBase+"/code", "code", code)
	v.forget(accountBase+"/code", "code", code)
	if got := v.Location(v.Post(accountBase+"/code", "code", code)); got != accountBase {
		t.Fatalf("location = %q", got)
	}
	if got := v.account().Find(".browsers li").Length(); got != 2 {
		t.Errorf("%d browsers are known, want 2", got)
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from account_sessions"); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

// TestAllowTwice: the code of the second Allow works, and after that the page is honest.
func TestAllowTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base, _ := v.consent(scope.All)
	v.Location(v.forget(base+"/consent", "decision", "allow"))
	f.exchange(t, v.Location(v.Post(base+"/consent", "decision", "allow")))
	third := v.Post(base+"/consent", "decision", "allow")
	v.isError(third, http.StatusBadRequest, headingDecided)
	if got := said(third.Find("main")); strings.Contains(got, "Nothing was shared") || third.Find("main a[href='/account']").Length() != 1 {
		t.Errorf("the page says %q", got)
	}
}

// TestOtherDecision: of two decisions the first holds. The answer to the other one says so, and shares nothing, whether or not the browser has
// the first answer.
func TestOtherDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for first, other := range map[string]string{"allow": "deny", "deny": "allow"} {
		for _, kept := range []bool{true, false} {
			v := f.visitor(t)
			base, _ := v.consent(scope.All)
			decide := v.forget
			if kept {
				decide = v.Post
			}
			location := v.Location(decide(base+"/consent", "decision", first))
			page := v.Post(base+"/consent", "decision", other)
			v.isError(page, http.StatusBadRequest, headingDecided)
			if list := page.Find("main a[href='/account']").Length(); list != map[string]int{"allow": 1, "deny": 0}[first] {
				t.Errorf("%s after %s: %q", other, first, said(page.Find("main")))
			}
			if again := v.Location(v.Post(base+"/consent", "decision", first)); anyCode.ReplaceAllString(again, "") != anyCode.ReplaceAllString(location, "") {
				t.Errorf("%s again leads to %q", first, again)
			}
		}
	}
}

// exchange has the partner exchange the code of a callback.
func (f *fixture) exchange(t testing.TB, location string) oauth.Tokens {
	t.Helper()
	callback, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.OAuth.Exchange(t.Context(), edgetest.Credentials(f.client), oauth.ExchangeParams{
		Code: callback.Query().Get("code"), RedirectURI: f.client.CallbackURL, CodeVerifier: edgetest.Verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
