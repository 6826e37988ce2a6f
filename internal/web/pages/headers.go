package pages

import (
	"net/http"

	"connect-svc/internal/web/site"
)

// secure lets browsers come back by TLS alone.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=63072000")
		next.ServeHTTP(w, r)
	})
}

// allowCallback lets the forms of this page redirect to the callback. Browsers apply form-action to every redirect that
// follows a form. The callback's origin alone would not be enough: many callbacks redirect to another host of the partner,
// where Chromium would stop silently.
func allowCallback(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", site.Policy+" https:")
}
