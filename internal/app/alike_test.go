package app

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// usualOf returns the path of a target as the handlers see it, escaped where it must be.
func usualOf(t *testing.T, target string) string {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	return usual(&http.Request{URL: u}).URL.EscapedPath()
}

func TestUsualPath(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/oauth/token": "/oauth/token", "/oauth/t%6Fken": "/oauth/token", "/oauth/t%6fken": "/oauth/token", "/%6Fauth%2Fauthorize": "/oauth%2Fauthorize",
		"/%7Eada": "/~ada", "/~ada": "/~ada", "/a%2Db%2Ec%5Fd": "/a-b.c_d", "/%30%39%41%5A%61%7A": "/09AZaz",
		"/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2Fb", "/a%3fb": "/a%3Fb", "/a%20b": "/a%20b", "/a%00b": "/a%00b", "/%C3%BC": "/%C3%BC", "/%c3%bc": "/%C3%BC",
		"/a%2541": "/a%2541", "/%2541": "/%2541", // %25 does not begin another escape
		"/a!b": "/a!b", "/a%21b": "/a%21b", "/a%3Bb": "/a%3Bb", "/a;b": "/a;b", "/a%3Ab": "/a%3Ab", "/a:b": "/a:b",
		"/%2E%2E/a": "/../a", "/": "/", "//": "//", "//a/b": "//a/b",
		"https://connect.example": "/", "https://connect.example?a": "/", "https://connect.example/%61": "/a", "*": "*",
	} {
		if got := usualOf(t, target); got != want {
			t.Errorf("%s is %s, want %s", target, got, want)
		}
	}
}

// FuzzUsualPath: a path means what it meant, its usual form is its own usual form, and a slash stays one or stays escaped.
func FuzzUsualPath(f *testing.F) {
	for _, seed := range []string{"/", "/a%2Fb", "/%7e/%2541", "/%ff%00", "https://a", "//a", "/a!%21", "*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Path == "" {
			return
		}
		before := *u
		got := usualPath(u)
		if *u != before {
			t.Errorf("%q is changed", target)
		}
		if got.Path != u.Path || got.RawQuery != u.RawQuery || usualPath(got).EscapedPath() != got.EscapedPath() {
			t.Errorf("%q became %q, then %q", target, got, usualPath(got))
		}
		if a, b := strings.Count(got.EscapedPath(), "/"), strings.Count(u.EscapedPath(), "/"); a != b {
			t.Errorf("%q has %d slashes, then %d", target, b, a)
		}
	})
}

// A list on several lines is the list on one (RFC 9110, section 5.3). Other fields stay as they came: exactly one Authorization header
// is a rule (specification 5.1, 5.2).
func TestUsualLists(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header = http.Header{"Accept-Language": {"xx", "de;q=0.9", "en"}, "Authorization": {"Bearer a", "Bearer b"}, "If-None-Match": {`"a"`}}
	got := usual(r)
	if text := strings.Join(got.Header["Accept-Language"], "|"); text != "xx, de;q=0.9, en" {
		t.Errorf("Accept-Language is %s", text)
	}
	if len(got.Header["Authorization"]) != 2 || len(got.Header["If-None-Match"]) != 1 || len(r.Header["Accept-Language"]) != 3 {
		t.Errorf("the header is %v, and was %v", got.Header, r.Header)
	}
}
