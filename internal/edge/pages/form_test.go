package pages

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// TestForms: what is not one of our forms is refused before anything happens.
func TestForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	const form = "application/x-www-form-urlencoded"
	for _, test := range []struct {
		name, path, contentType, body string
	}{
		{"another content type", "/sign-in", "text/plain", "email=ada%40example.com"},
		{"no content type", "/sign-in", "", "email=ada%40example.com"},
		{"multipart", "/sign-in", "multipart/form-data; boundary=x", "--x--"},
		{"over 8 KB", "/sign-in", form, "email=" + strings.Repeat("a", 8*1024)},
		{"unknown field", "/sign-in", form, "email=ada%40example.com&next=%2F"},
		{"repeated field", "/sign-in", form, "email=ada%40example.com&email=ada%40example.com"},
		{"NUL", "/sign-in", form, "email=ada%00%40example.com"},
		{"not UTF-8", "/sign-in", form, "email=ada%ff%40example.com"},
		{"broken encoding", "/sign-in", form, "email=ada%4"},
		{"semicolon", "/sign-in", form, "email=ada%40example.com;x=y"},
		{"field of another form", "/new-code", form, "email=ada%40example.com"},
		{"NUL in the code", "/code", form, "code=12345%00"},
		{"no decision", "/consent", form, ""},
		{"unknown decision", "/consent", form, "decision=perhaps"},
		{"both decisions", "/consent", form, "decision=allow&decision=deny"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v.isError(v.Send(http.MethodPost, base+test.path, test.contentType, test.body), http.StatusBadRequest, headingForm)
		})
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from sign_ins"); n != 0 {
		t.Errorf("%d sign-ins", n)
	}
	v.Location(v.Send(http.MethodPost, base+"/sign-in", form+"; charset=UTF-8", "email=ada%40example.com"))
}

// TestForeignForms: another site cannot send a form, not even with the browser's cookie.
func TestForeignForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base, _ := v.consent(scope.All)
	for name, header := range map[string]http.Header{
		"another site":            {"Sec-Fetch-Site": {"cross-site"}},
		"another host of ours":    {"Sec-Fetch-Site": {"same-site"}},
		"without an origin":       {"Origin": {"null"}},
		"old browser, other site": {"Origin": {"https://evil.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			v.Header = header
			v.isError(v.Post(base+"/consent", "decision", "allow"), http.StatusForbidden, headingForm)
		})
	}
	for name, header := range map[string]http.Header{
		"old browser, our own page": {"Origin": {"https://" + serviceHost}},
	} {
		t.Run(name, func(t *testing.T) {
			v.Header = header
			v.Location(v.Post(base+"/consent", "decision", "allow"))
		})
	}
}

// TestFormsOfOldPhones sends each form as a browser without Sec-Fetch-Site does (Safari before 16.4): with the origin of the
// page, which it calls null where the page's policy is to send no referrer at all.
func TestFormsOfOldPhones(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.connect(t, scope.All)
	v := f.visitor(t)
	v.Header = http.Header{}
	submit := func(page string, action string, fields ...string) string {
		t.Helper()
		delete(v.Header, "Origin")
		shown := v.Get(page)
		if shown.StatusCode != http.StatusOK || shown.Find(`form[action^="`+action+`"]`).Length() == 0 {
			t.Fatalf("%s: %d, without the form of %s", page, shown.StatusCode, action)
		}
		v.Header.Set("Origin", "https://"+serviceHost)
		if shown.Header.Get("Referrer-Policy") == "no-referrer" {
			v.Header.Set("Origin", "null")
		}
		return v.Location(v.Post(action, fields...))
	}
	for _, base := range []string{v.open(scope.All), "/account"} {
		submit(base+"/sign-in", base+"/sign-in", "email", email)
		f.post.Next(t)
		submit(base+"/code", base+"/new-code")
		submit(base+"/code", base+"/code", "code", f.post.Next(t).Code)
		if base != "/account" {
			submit(base+"/consent", base+"/consent", "decision", "allow")
		}
	}
	submit(f.disconnectPage(), f.disconnectPage())
	field, _ := v.Get("/account").Find("input[name=browser]").Attr("value")
	submit("/account", "/account/browsers", "browser", field)
	submit("/account", "/account/sign-out")
}

// FuzzForm: what passes is known, there once, and text that a database takes.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{"", "code=123456", "code=1&code=2", "code=%00", "x=y", "code=%ff", "code=%zz", "code=+1;", "&&code=", "code"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, err := site.ParseForm(body, []string{"code"})
		if err != nil {
			return
		}
		for name, value := range form {
			if name != "code" || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				t.Errorf("%q = %q", name, value)
			}
		}
		if values, err := url.ParseQuery(body); err != nil || len(values["code"]) > 1 || len(values) > 1 {
			t.Errorf("passed: %q", body)
		}
	})
}

// FuzzCookies: whatever a browser keeps, what is read of it are secrets and keys of whole length, which come back the same.
func FuzzCookies(f *testing.F) {
	key := strings.Repeat("A", 64)
	for _, seed := range []string{"", "=", key, key + key, key + "A", strings.Repeat(key, 5), strings.Repeat("A", 43), strings.Repeat("A", 42) + "B",
		"a; " + knownCookie + "=" + key, "\"" + key + "\"", "\x00", "%41"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := &http.Request{Header: http.Header{"Cookie": {knownCookie + "=" + value, browserCookie + "=" + value}}}
		keys := knownKeys(r)
		if len(keys) > maxKnown {
			t.Errorf("%d keys", len(keys))
		}
		var again []byte
		for _, one := range keys {
			again = slices.Concat(again, one.UserID[:], one.Secret[:])
		}
		if read := cookieValue(r, knownCookie); len(keys) > 0 && !bytes.Equal(again, read) {
			t.Errorf("read as %d bytes, of %d", len(again), len(read))
		}
		if one, ok := secretIn(r, browserCookie); ok && !strings.Contains(value, secretEncoding.EncodeToString(one[:])) {
			t.Error("a secret that no cookie has")
		}
	})
}
