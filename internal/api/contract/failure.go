package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-chi/chi/v5/middleware"

	"connect-svc/internal/telemetry"
)

// Failure is how an error is told to the caller. The texts are those of the document's examples.
type Failure struct {
	Err       error
	Status    int
	Code      string
	Text      string
	Challenge string // WWW-Authenticate, with 401 and 403
}

// Failures are the errors of some operations.
type Failures struct {
	Table []Failure // those that the caller is told, the first that fits
	Fault Failure   // all others, whose causes only the log is told
	Type  string    // the content type
	Body  func(r *http.Request, told Failure, err error) any
}

// Write answers with an error, unless an answer is on its way already.
func (f *Failures) Write(w http.ResponseWriter, r *http.Request, err error) {
	if written, ok := w.(middleware.WrapResponseWriter); ok && written.Status() != 0 {
		return // the connection broke
	}
	for _, told := range f.Table {
		if errors.Is(err, told.Err) {
			f.Tell(w, r, told, err)
			return
		}
	}
	telemetry.EventOf(r.Context()).Cause = err
	f.Tell(w, r, f.Fault, err)
}

// Tell answers with one of the failures.
func (f *Failures) Tell(w http.ResponseWriter, r *http.Request, told Failure, err error) {
	telemetry.EventOf(r.Context()).Code = told.Code
	if told.Challenge != "" {
		w.Header().Set("WWW-Authenticate", told.Challenge)
	}
	w.Header().Set("Content-Type", f.Type)
	w.WriteHeader(told.Status)
	_ = json.NewEncoder(w).Encode(f.Body(r, told, err)) // fails only where nobody reads it any more
}

// Recovered turns a panic into a fault. Where the answer has begun already only breaking it off is left.
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
					fail(ww, r, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
				}
			}()
			next.ServeHTTP(ww, r)
		})
	}
}
