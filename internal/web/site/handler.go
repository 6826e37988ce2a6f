package site

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/telemetry"
)

// Redirect is returned by a handler, as its error, to send the browser on with a GET.
type Redirect string

func (r Redirect) Error() string { return "see " + string(r) }

// Handle responds with what handle writes, with the redirect that it returns, or with what fail makes of its error or panic.
func Handle(handle func(http.ResponseWriter, *http.Request) error, fail func(http.ResponseWriter, *http.Request, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if failure := recover(); failure == any(http.ErrAbortHandler) {
				panic(failure)
			} else if failure != nil {
				fail(w, r, fmt.Errorf("panic: %v", failure))
			}
		}()
		var to Redirect
		switch err := handle(w, r); {
		case errors.As(err, &to):
			w.Header().Set("Location", string(to))
			w.WriteHeader(http.StatusSeeOther)
		case err != nil:
			fail(w, r, err)
		}
	}
}

// Named gives the request's log event the pattern of its route: paths contain ids.
func Named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if pattern := chi.RouteContext(r.Context()).RoutePattern(); pattern != "" {
				telemetry.EventOf(r.Context()).Operation = pattern
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// Policy is the content security policy of a page: our own styles and images, no script, no frame, and forms only to us.
const Policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// Headers sets the headers of every response, also of errors.
func Headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, older browsers call the origin of our own forms null
		h.Set("Vary", "Accept-Language")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()")
		next.ServeHTTP(w, r)
	})
}
