package browser

import "net/http"

// policy is the content security policy of every page: our own style and pictures, no script, no frame, and forms
// that lead back to us.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// headers are those of every answer, also of errors.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Strict-Transport-Security", "max-age=63072000")
		next.ServeHTTP(w, r)
	})
}

// letGo lets the forms of this page end outside, too, where a decision sends the browser to the callback. Browsers hold
// form-action against every redirect that follows a form, so that the callback's origin alone would not do: many a
// callback goes on to another host of its company, and Chromium would stop there, silently.
func letGo(w http.ResponseWriter) { w.Header().Set("Content-Security-Policy", policy+" https:") }
