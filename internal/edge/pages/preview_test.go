package pages

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

// TestPreviewShowsEverything: every page is among the samples, and each can be seen in every language.
func TestPreviewShowsEverything(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, s := range samples() {
		shown[s.view] = true
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if page := strings.TrimSuffix(path.Base(name), ".html"); !shown[page] {
			t.Errorf("no sample of %s", page)
		}
	}
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
		handler.ServeHTTP(w, r)
		return w
	}
	for _, s := range samples() {
		shown := get("/fr/" + s.Name)
		page, err := goquery.NewDocumentFromReader(shown.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range page.Find(`a[href^="/"]`).EachIter() {
			to := get(link.AttrOr("href", ""), shown.Result().Cookies()...) //nolint:bodyclose // a recorder's
			if leads := to.Header().Get("Location"); !strings.HasPrefix(leads, "/fr/") || get(leads).Code != http.StatusOK {
				t.Errorf("%s: %q leads to status %d, %q", s.Name, link.AttrOr("href", ""), to.Code, leads)
			}
		}
	}
	for _, tag := range locale.Default().Tags() {
		if index := get("/" + tag); index.Code != http.StatusOK || !strings.Contains(index.Body.String(), "/"+tag+"/consent") {
			t.Errorf("%s: status %d", tag, index.Code)
		}
		for _, s := range samples() {
			if page := get("/" + tag + "/" + s.Name); page.Code != http.StatusOK || !strings.Contains(page.Body.String(), `<html lang="`+tag+`"`) {
				t.Errorf("%s in %s: status %d", s.Name, tag, page.Code)
			}
		}
		for _, name := range []string{"email", "email-account", "email.txt", "email-account.txt"} {
			if email := get("/" + tag + "/" + name); email.Code != http.StatusOK || !strings.Contains(email.Body.String(), "012345") {
				t.Errorf("%s in %s: status %d", name, tag, email.Code)
			}
		}
	}
	for _, path := range []string{"/xx", "/en/nothing", "/xx/consent", "/xx/email", "/preview/nothing", "/static/nothing"} {
		if got := get(path).Code; got != http.StatusNotFound {
			t.Errorf("%s: status %d", path, got)
		}
	}
	if _, err := Preview(brand.Brand{}, nil); err != nil {
		t.Errorf("without a brand: %v", err)
	}
}

// TestLanguagesAtOnce: many browsers ask for the same pages for the first time, each in its language.
func TestLanguagesAtOnce(t *testing.T) {
	t.Parallel()
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var browsers sync.WaitGroup
	for _, tag := range locale.Default().Tags() {
		for range 4 {
			browsers.Go(func() {
				for _, name := range []string{"consent", "account"} {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+tag+"/"+name, nil))
					if want := locale.Default().Locale(tag).Text("account.name"); !strings.Contains(w.Body.String(), `<html lang="`+tag+`"`) ||
						!strings.Contains(w.Body.String(), want) {
						t.Errorf("%s in %s: status %d, without %q", name, tag, w.Code, want)
					}
				}
			})
		}
	}
	browsers.Wait()
}
