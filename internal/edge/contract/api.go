// Package contract reads the documents of the JSON edges, validates requests against them, and writes the errors of all edges.
//
// [Read], [ReadBody], [Failures] and [Recovered] are for every edge. [API] is the edge of the operator API and of the sandbox's driver,
// whose bodies are JSON and whose errors are problem details (RFC 9457). A request passes
//
//	headers     Cache-Control and X-Request-ID of every response
//	Recovered   turns a panic into an opaque error
//	middleware  the edge's own, such as authentication
//	chi         path and method, or 404
//	guard       validates the request's shape and body against the embedded document
//	generated   binds parameters and body
//
// # Invariants
//
//   - Every error of a request is written by [Failures.Write], which looks it up in a table of the edge. An error that is not in the table
//     is opaque to the caller, and is the cause in the request's one log event (partner.TestFaults_7, operator.TestEvents).
//   - An error of a field names its place and the accepted values, never the value (operator.TestInvalidActivity,
//     operator.TestInvalidUser).
package contract

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
)

// typePrefix begins the types of problems.
const typePrefix = "urn:connect-svc:problem:"

const jsonType = "application/json"

var errNoOperation = errors.New("no such path or method")

// API is an edge whose bodies are JSON, and whose errors are problem details (RFC 9457).
type API struct {
	Budget     *Budget      // of the memory for bodies; nil: unlimited
	Limits     *work.Limits // of requests' time; nil: they end with their contexts
	Gzip       bool         // bodies may be compressed with gzip
	operations map[string]*Operation
	failures   Failures
}

// Document returns what reads an embedded document whose bodies are JSON: once for all its APIs in a process.
func Document(text func() ([]byte, error)) func() (map[string]*Operation, error) {
	return sync.OnceValues(func() (map[string]*Operation, error) { return Read(text, jsonType) })
}

// NewAPI makes the API of a [Document]. failures lists the edge's own errors. It fails only if the document is not usable.
func NewAPI(document func() (map[string]*Operation, error), failures ...Failure) (*API, error) {
	operations, err := document()
	if err != nil {
		return nil, err
	}
	return &API{operations: operations, failures: Failures{
		Table: append(failures,
			Failure{Err: errNoOperation, Code: "not-found", Text: "There is nothing here.", Status: 404},
			Failure{Err: ErrMalformed, Code: "malformed-request", Text: "The request is malformed.", Status: 400},
			Failure{Err: ErrMediaType, Code: "unsupported-media-type", Text: "The body must be application/json.", Status: 415},
			Failure{Err: ErrTooLarge, Code: "too-large", Text: "The body is too large.", Status: 413},
			Failure{Err: refusal.ErrFields, Code: "invalid-content", Text: "Fields of the request are invalid.", Status: 422},
		),
		Fault:       Failure{Code: "server-error", Text: "The request could not be completed.", Status: 500},
		ContentType: "application/problem+json",
		Body: func(r *http.Request, failure Failure, err error) any {
			var fields []fieldError
			for _, field := range refusal.FieldsOf(err) {
				fields = append(fields, fieldError{field.Path, field.Problem})
			}
			return problem{typePrefix + failure.Code, failure.Text, failure.Status, telemetry.EventOf(r.Context()).RequestID, fields}
		},
	}}, nil
}

type problem struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	RequestID uuid.UUID    `json:"request_id"`
	Errors    []fieldError `json:"errors,omitempty"`
}

type fieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Fail writes the response to an error.
func (a *API) Fail(w http.ResponseWriter, r *http.Request, err error) { a.failures.Write(w, r, err) }

// Handler serves the operations that mount adds to its router, and 404 for unknown paths and wrong methods. The middleware runs before
// routing. Mount the handler behind telemetry.Requests, which makes the request ids.
func (a *API) Handler(mount func(chi.Router), middleware ...func(http.Handler) http.Handler) http.Handler {
	noOperation := func(w http.ResponseWriter, r *http.Request) { a.Fail(w, r, errNoOperation) }
	router := chi.NewRouter()
	router.Use(headers, a.named(router), Recovered(a.Fail))
	router.Use(middleware...)
	router.NotFound(noOperation)
	router.MethodNotAllowed(noOperation)
	mount(router.With(a.timed, a.guard)) // between routing and binding
	return router
}

// timed sets the deadline of a request by its operation. A caller that disconnects does not end the request.
func (a *API) timed(next http.Handler) http.Handler {
	if a.Limits == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := a.Limits.Act
		if a.operations[Route(r)].Batch {
			limit = a.Limits.Batch
		}
		ctx, cancel := work.Within(r.Context(), work.Caller{Kind: work.Operator}, limit)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Request-ID", telemetry.EventOf(r.Context()).RequestID.String())
		next.ServeHTTP(w, r)
	})
}

// named names the operation of each request before anything can refuse it.
func (a *API) named(routes chi.Routes) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if op := a.operations[r.Method+" "+routes.Find(chi.NewRouteContext(), r.Method, r.URL.Path)]; op != nil {
				telemetry.EventOf(r.Context()).Operation = op.ID
			}
			next.ServeHTTP(w, r)
		})
	}
}

// guard checks the shape and the body of a request in the order that the document promises, and passes it to its operation. It reads
// the body and puts it back.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := a.operations[Route(r)]
		err := op.checkQuery(r)
		switch {
		case !op.CheckPath(r):
			err = errNoOperation
		case err != nil:
		case op.Body == nil && HasBody(w, r):
			err = ErrMalformed
		case op.Body != nil:
			if a.Gzip {
				if err = unpack(r); err != nil {
					w.Header().Set("Accept-Encoding", "gzip") // RFC 7694, section 3
					break
				}
			}
			var leave func()
			if leave, err = a.Budget.enter(r); err == nil {
				defer leave()
				err = op.checkBody(r)
			}
		}
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Failure is an error as the caller sees it, with the text of the document's example.
type Failure struct {
	Err        error
	Status     int
	Code       string
	Text       string
	Challenge  string // WWW-Authenticate, with 401 and 403
	RetryAfter string // seconds, with 429 and 503
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
			if spent, ok := errors.AsType[refusal.OverBudget](err); ok {
				failure.RetryAfter = spent.RetryAfter()
			}
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

// Authorization returns what follows the scheme in an Authorization header, after one space or more (RFC 9110, sections 11.1 and 11.4). The
// scheme is in any case. It must be one word on one line, which a decoder of base64 does not check.
func Authorization(header, scheme string) (value string, ok bool) {
	name, rest, _ := strings.Cut(header, " ")
	value = strings.TrimLeft(rest, " ")
	return value, strings.EqualFold(name, scheme) && value != "" && !strings.ContainsAny(value, " \t\r\n")
}
