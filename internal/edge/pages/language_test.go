package pages

import (
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/scope"
)

// TestChosenLanguage: the switch at the foot of a page leads back to it, and the browser keeps the language, also for the email.
func TestChosenLanguage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	refused := "/oauth/authorize?client_id=unknown&state=a%26b"
	choose := func(tag, from string) string {
		v.Header.Set("Referer", from)
		defer v.Header.Del("Referer")
		return v.Location(v.Post("/account/language", "language", tag))
	}
	is := func(path, tag string) {
		t.Helper()
		if got := v.Get(path).Find("html").AttrOr("lang", ""); got != tag {
			t.Errorf("%s is in %s, want %s", path, got, tag)
		}
	}

	base := v.open(scope.All)
	form := v.Get(base + "/sign-in").Find("footer form")
	if got := form.Find("button").Length(); got != len(locale.Default().Tags()) || form.AttrOr("action", "") != languagePath {
		t.Errorf("the page has %d languages", got)
	}
	is(base+"/sign-in", "en")
	for from, want := range map[string]string{
		at(base + "/sign-in"):          base + "/sign-in",
		at(base + "/new-code"):         base + "/sign-in", // answers a form
		at(refused):                    refused,
		at("/account/sign-out"):        "/account",
		at("/nothing"):                 "/account",
		"":                             "/account",
		"https://other.example//a.b/c": "/account",
		"https://other.example/\\a.b":  "/account",
		"::":                           "/account",
	} {
		if got := choose("de", from); got != want {
			t.Errorf("from %q it leads to %s, want %s", from, got, want)
		}
	}
	for _, path := range []string{base + "/sign-in", refused, "/account/sign-in", "/nothing"} {
		is(path, "de")
	}
	v.Post(base+"/sign-in", "email", email)
	if got := f.post.Next(t).HTML; !strings.Contains(got, `lang="de"`) {
		t.Errorf("the email is not in German: %s", got)
	}
	choose("pl", "")
	is(base+"/code", "pl")

	for _, fields := range [][]string{{"language", "tlh"}, {"language", ""}, {}, {"language", "de", "to", "/"}} {
		v.isError(v.Post("/account/language", fields...), http.StatusBadRequest, locale.Default().Locale("pl").Text("bad_form.heading"))
	}
	v.Give("/", &http.Cookie{Name: languageCookie, Value: "tlh", Path: "/", Secure: true})
	is(base+"/code", "en")
}
