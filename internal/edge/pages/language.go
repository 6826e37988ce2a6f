package pages

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/edge/site"
)

// languageCookie has the language that was chosen in this browser.
const languageCookie = "__Host-connect-language"

// languagePath is that of the form at the foot of each page.
const languagePath = accountBase + "/language"

// languageLifetime is the longest that browsers keep a cookie.
const languageLifetime = 400 * 24 * time.Hour

// inChosenLanguage replaces the browser's languages by the one that was chosen in it.
func (p *pages) inChosenLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tag := cookieText(r, languageCookie); slices.Contains(p.site.Texts.Tags(), tag) {
			r.Header.Set("Accept-Language", tag)
		}
		next.ServeHTTP(w, r)
	})
}

// chooseLanguage keeps a language in the browser, and leads back to the page with the form.
func (p *pages) chooseLanguage(router chi.Routes) site.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		form, err := site.ReadForm(w, r, "language")
		if err != nil {
			return err
		}
		if !slices.Contains(p.site.Texts.Tags(), form["language"]) {
			return site.ErrBadForm
		}
		setCookie(w, languageCookie, form["language"], languageLifetime)
		return site.Redirect(pageBefore(r, router))
	}
}

// pageBefore returns the page that a form was on, as the browser names it. If a GET does not lead there, because the page answered a form,
// it returns the first page of the same sign-in.
func pageBefore(r *http.Request, router chi.Routes) string {
	from, err := url.Parse(r.Referer())
	if err != nil || from.Path == "" {
		return accountBase
	}
	if router.Match(chi.NewRouteContext(), http.MethodGet, from.Path) {
		return (&url.URL{Path: from.Path, RawQuery: from.RawQuery}).String()
	}
	before := chi.NewRouteContext()
	router.Match(before, http.MethodPost, from.Path)
	if request := before.URLParam("request"); request != "" {
		return "/authorize/" + request + "/sign-in"
	}
	return accountBase
}
