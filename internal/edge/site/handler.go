package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// Redirect is the error that a handler returns to redirect the browser with a GET.
type Redirect string

func (r Redirect) Error() string { return "see " + string(r) }

// Errors of requests.
var (
	ErrNotFound    = errors.New("no such page")
	ErrForeignForm = errors.New("a form of another site")
	// ErrCutOff means that a file was sent in part. The connection must break, so that nobody takes it for the whole.
	ErrCutOff = errors.New("a file was cut off")
)

// Handler writes a response, or returns an error or a [Redirect].
type Handler = func(http.ResponseWriter, *http.Request) error

// About is a [Handler] with the subject of the request.
type About[T any] = func(http.ResponseWriter, *http.Request, T) error

// Given calls handle with the subject that of returns, or returns the error of of.
func Given[T any](find func(*http.Request) (T, error), handle About[T]) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		subject, err := find(r)
		if err != nil {
			return err
		}
		return handle(w, r, subject)
	}
}

// Confirmed wraps an act whose form has no fields. Error: [ErrBadForm].
func Confirmed[T any](act About[T]) About[T] {
	return func(w http.ResponseWriter, r *http.Request, subject T) error {
		if _, err := ReadForm(w, r); err != nil {
			return err
		}
		return act(w, r, subject)
	}
}

// Attach sends a file of a media type that write writes, and that the browser stores under a name. Errors: those of write, with [ErrCutOff] if
// something was sent. The event of the request has the cause then, unless the reader has left.
func Attach(ctx context.Context, w http.ResponseWriter, name, mediaType string, write func(io.Writer) error) error {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	file := &attachment{w: w}
	err := write(file)
	if err != nil && file.begun {
		if !file.left {
			telemetry.EventOf(ctx).Cause = err
		}
		return fmt.Errorf("%w: %w", ErrCutOff, err)
	}
	if err != nil { // a page, or a problem, tells the error
		w.Header().Del("Content-Type")
		w.Header().Del("Content-Disposition")
	}
	return err
}

// attachment knows what became of its file.
type attachment struct {
	w           io.Writer
	begun, left bool
}

func (a *attachment) Write(part []byte) (int, error) {
	a.begun = true
	n, err := a.w.Write(part)
	a.left = a.left || err != nil
	return n, err
}

// FailWith answers every request with an error.
func FailWith(err error) Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// IsBelow reports whether a path is a root, or below it. The root may end with a slash.
func IsBelow(path, root string) bool {
	return strings.HasPrefix(path+"/", strings.TrimSuffix(root, "/")+"/")
}

// PathID returns the id in a parameter of the path. It accepts one spelling. Error: [ErrNotFound].
func PathID(r *http.Request, name string) (uuid.UUID, error) {
	text := chi.URLParam(r, name)
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return id, ErrNotFound
	}
	return id, nil
}

// Timed sets each request's deadline and its caller in the queue for the database. If the browser disconnects, only a GET that still
// waits there is cancelled.
func Timed(caller func(*http.Request) work.Caller, limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			within := work.Within
			if r.Method == http.MethodGet {
				within = work.WithinWhileWanted
			}
			ctx, cancel := within(r.Context(), caller(r), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// Handle serves a handler: its response, its redirect, or the response of fail to its error or panic. A browser that left gets
// nothing.
func Handle(handle Handler, fail func(http.ResponseWriter, *http.Request, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var to Redirect
		switch err := work.Try(func() error { return handle(w, r) }); {
		case errors.As(err, &to):
			w.Header().Set("Location", string(to))
			w.WriteHeader(http.StatusSeeOther)
		case errors.Is(err, work.ErrGone):
			telemetry.EventOf(r.Context()).Code = telemetry.CallerLeft
			panic(http.ErrAbortHandler)
		case errors.Is(err, ErrCutOff):
			panic(http.ErrAbortHandler)
		case err != nil:
			fail(w, r, err)
		}
	}
}

// Named sets the operation of the log event to the route's pattern, because paths contain ids.
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

// Policy is the content security policy of a page. It allows our styles, images and forms, and no scripts or frames.
const Policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// Headers sets the headers of every response, including errors.
func Headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, older browsers send the origin null with our forms
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

// Maximum sizes of a form's body in bytes. In long texts a character may take twelve.
const (
	maxForm     = 8 << 10
	maxLongForm = 64 << 10
)

// ErrBadForm means that a form is malformed or has unknown fields.
var ErrBadForm = errors.New("not a form of ours")

// ReadForm reads the submitted fields and trims their space. Each field must be known, occur once, and be text that PostgreSQL accepts.
// Missing fields are empty. Error: ErrBadForm.
func ReadForm(w http.ResponseWriter, r *http.Request, known ...string) (map[string]string, error) {
	return readForm(w, r, maxForm, known)
}

// ReadLongForm is [ReadForm] for a form with long texts. Error: ErrBadForm.
func ReadLongForm(w http.ResponseWriter, r *http.Request, known ...string) (map[string]string, error) {
	return readForm(w, r, maxLongForm, known)
}

func readForm(w http.ResponseWriter, r *http.Request, limit int64, known []string) (map[string]string, error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/x-www-form-urlencoded" {
		return nil, ErrBadForm
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, ErrBadForm
	}
	return ParseForm(string(body), known)
}

// ParseForm reads the fields of a form or a query string like [ReadForm].
func ParseForm(encoded string, known []string) (map[string]string, error) {
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, ErrBadForm
	}
	form := make(map[string]string, len(known))
	for name, list := range values {
		if !slices.Contains(known, name) || len(list) != 1 || !text.IsStorable(list[0]) {
			return nil, ErrBadForm
		}
		form[name] = strings.TrimSpace(list[0])
	}
	return form, nil
}

// OwnForms refuses forms of other sites. A browser says whether a form is of the same origin (Sec-Fetch-Site), and is believed. An older one
// (Safari before 16.4) names the origin of the page alone: it must be one of origins, which may be empty texts, or that of the request's Host.
// A proxy may have sent another Host. An origin has a scheme and a host, and a port unless it is the default one. The error names a
// text that is not an origin.
func OwnForms(refuse http.Handler, origins ...string) (func(http.Handler) http.Handler, error) {
	forms, oldForms := http.NewCrossOriginProtection(), http.NewCrossOriginProtection()
	forms.SetDenyHandler(refuse)
	oldForms.SetDenyHandler(refuse)
	for _, origin := range origins {
		if origin == "" {
			continue
		}
		if err := oldForms.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return func(next http.Handler) http.Handler {
		own, ownOld := forms.Handler(next), oldForms.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Sec-Fetch-Site") == "" {
				ownOld.ServeHTTP(w, r)
				return
			}
			own.ServeHTTP(w, r)
		})
	}, nil
}

// OriginOf returns the origin of an https URL as browsers name it: without the default port (RFC 6454, section 6.1).
func OriginOf(baseURL string) string { return strings.TrimSuffix(baseURL, ":443") }
