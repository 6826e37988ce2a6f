package site

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/panics"
	"connect-svc/internal/telemetry"
)

// Redirect is returned by a handler, as its error, to send the browser on with a GET.
type Redirect string

func (r Redirect) Error() string { return "see " + string(r) }

// Errors of what was asked for.
var (
	ErrNotFound    = errors.New("no such page")
	ErrForeignForm = errors.New("a form of another site")
)

// Handler writes a response, or returns the error or [Redirect] that is to be written.
type Handler = func(http.ResponseWriter, *http.Request) error

// About is a [Handler] that is given what the request is about.
type About[T any] = func(http.ResponseWriter, *http.Request, T) error

// Given has handle given what of finds, and otherwise returns its error.
func Given[T any](of func(*http.Request) (T, error), handle About[T]) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		one, err := of(r)
		if err != nil {
			return err
		}
		return handle(w, r, one)
	}
}

// Confirmed carries out an act whose form has no fields. Error: [ErrBadForm].
func Confirmed[T any](act About[T]) About[T] {
	return func(w http.ResponseWriter, r *http.Request, one T) error {
		if _, err := ReadForm(w, r); err != nil {
			return err
		}
		return act(w, r, one)
	}
}

// FailWith returns an error to every request.
func FailWith(err error) Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// PathID is the id that a parameter of the path holds. Ids have one spelling. Error: [ErrNotFound].
func PathID(r *http.Request, name string) (uuid.UUID, error) {
	text := chi.URLParam(r, name)
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return id, ErrNotFound
	}
	return id, nil
}

// Timed gives each request its deadline, and its caller in the queue for the database. A browser that goes away cancels only a GET
// that still waits there.
func Timed(caller func(*http.Request) fairqueue.Caller, limit func(*http.Request) time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			within := fairqueue.Within
			if r.Method == http.MethodGet {
				within = fairqueue.WithinWhileWanted
			}
			ctx, cancel := within(r.Context(), caller(r), limit(r))
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// Handle responds with what handle writes, with the redirect that it returns, or with what fail makes of its error or panic. A
// browser that left while the page loaded gets nothing.
func Handle(handle Handler, fail func(http.ResponseWriter, *http.Request, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if failure := recover(); failure == any(http.ErrAbortHandler) {
				panic(failure)
			} else if failure != nil {
				fail(w, r, panics.New(failure))
			}
		}()
		var to Redirect
		switch err := handle(w, r); {
		case errors.As(err, &to):
			w.Header().Set("Location", string(to))
			w.WriteHeader(http.StatusSeeOther)
		case errors.Is(err, fairqueue.ErrGone):
			telemetry.EventOf(r.Context()).Code = telemetry.CallerLeft
			panic(http.ErrAbortHandler)
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
