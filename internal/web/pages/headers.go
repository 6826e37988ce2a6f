package pages

import "net/http"

// policy is the content security policy of every page: our own styles and images, no script, no frame, and forms only
// to us.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// headers sets the headers of every response, also of errors.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, older browsers call the origin of our own forms null
		h.Set("Vary", "Accept-Language")
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

// allowCallback lets the forms of this page redirect to the callback. Browsers apply form-action to every redirect that
// follows a form. The callback's origin alone would not be enough: many callbacks redirect to another host of the partner,
// where Chromium would stop silently.
func allowCallback(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", policy+" https:")
}
