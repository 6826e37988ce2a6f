package contract

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5/middleware"

	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Failure is an error as the caller sees it, with the text of the document's example.
type Failure struct {
	Err        error
	Status     int
	Code       string
	Text       string
	Challenge  string // WWW-Authenticate, with 401 and 403
	RetryAfter string // seconds, with 503
}

// Failures writes the errors of some operations.
type Failures struct {
	Table       []Failure // the first with a matching Err is written
	Fault       Failure   // of all other errors, which only the log describes
	ContentType string
	Body        func(r *http.Request, failure Failure, err error) any
}

// Write writes the response to an error. If a response has begun, it does nothing, because the connection broke.
func (f *Failures) Write(w http.ResponseWriter, r *http.Request, err error) {
	if written, ok := w.(middleware.WrapResponseWriter); ok && written.Status() != 0 {
		return
	}
	event := telemetry.EventOf(r.Context())
	for _, failure := range f.Table {
		if errors.Is(err, failure.Err) {
			event.Reason = cmp.Or(refusal.Reason(err), failure.Err.Error())
			f.WriteFailure(w, r, failure, err)
			return
		}
	}
	event.Cause, event.Reason = err, "a fault of the service"
	f.WriteFailure(w, r, f.Fault, err)
}

// WriteFailure writes a failure.
func (f *Failures) WriteFailure(w http.ResponseWriter, r *http.Request, failure Failure, err error) {
	telemetry.EventOf(r.Context()).Code = failure.Code
	if failure.Challenge != "" {
		w.Header().Set("WWW-Authenticate", failure.Challenge)
	}
	if failure.RetryAfter != "" {
		w.Header().Set("Retry-After", failure.RetryAfter)
	}
	w.Header().Set("Content-Type", f.ContentType)
	w.WriteHeader(failure.Status)
	_ = json.NewEncoder(w).Encode(f.Body(r, failure, err)) // fails only if the caller has gone
}

// Recovered turns a panic into a fault. It cuts off a response that has begun.
func Recovered(fail func(http.ResponseWriter, *http.Request, error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				switch cause := recover(); {
				case cause == nil:
				case cause == any(http.ErrAbortHandler), ww.Status() != 0:
					panic(cause)
				default:
					fail(ww, r, work.NewPanic(cause))
				}
			}()
			next.ServeHTTP(ww, r)
		})
	}
}
