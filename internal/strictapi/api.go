package strictapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/telemetry"
)

// Failure is how an error is told to the caller: the last part of its type, its fixed text, its status. The texts are
// those of the document's examples.
type Failure struct {
	Err         error
	Name, Title string
	Status      int
}

// TypePrefix begins the types of problems.
const TypePrefix = "urn:connect-svc:problem:"

// Errors that every edge finds.
var (
	errNoOperation = errors.New("no such path or method")
	errMalformed   = errors.New("malformed request")
	errMediaType   = errors.New("not JSON")
	errTooLarge    = errors.New("body too large")
)

var (
	common = []Failure{
		{errNoOperation, "not-found", "There is nothing here.", 404},
		{errMalformed, "malformed-request", "The request is malformed.", 400},
		{errMediaType, "unsupported-media-type", "The body must be application/json.", 415},
		{errTooLarge, "too-large", "The body is too large.", 413},
	}
	invalidContent = Failure{nil, "invalid-content", "Fields of the request are invalid.", 422}
	fault          = Failure{nil, "server-error", "The request could not be completed.", 500}
)

// API is an edge with a document.
type API struct {
	operations map[string]*operation // by method and path, as in "GET /operator/v1/users/{user_id}"
	failures   []Failure
}

// New reads the document from what was generated of it. Failures are the errors of the edge's own. An error says that
// the embedded document is not what this package can work with.
func New(document func() (*openapi3.T, error), text func() ([]byte, error), failures ...Failure) (*API, error) {
	loaded, err := document()
	if err != nil {
		return nil, fmt.Errorf("the embedded document: %w", err)
	}
	encoded, err := text()
	if err != nil {
		return nil, fmt.Errorf("the embedded document: %w", err)
	}
	operations, err := readDocument(loaded, encoded)
	if err != nil {
		return nil, fmt.Errorf("the embedded document: %w", err)
	}
	return &API{operations, append(failures, common...)}, nil
}

// Handler answers the operations that mount adds to its router, and 404 to everything else, wrong methods among it.
// The hands of first come before routing. Put it behind telemetry.Requests, which makes the request ids.
func (a *API) Handler(mount func(chi.Router), first ...func(http.Handler) http.Handler) http.Handler {
	router := chi.NewRouter()
	router.Use(headers, a.recovered)
	router.Use(first...)
	router.NotFound(a.noOperation)
	router.MethodNotAllowed(a.noOperation)
	mount(router.With(a.guard)) // after routing, before anything is bound
	return router
}

// How long a request may take before it is answered with a fault (decisions, section 5: five seconds in all, batches
// thirty). What is left is for writing the answer.
const (
	RequestTime = 4400 * time.Millisecond
	BatchTime   = 28 * time.Second
)

// Timed gives each request so long, whatever becomes of its caller, who is the operator. It is one of the hands that come
// first.
func Timed(limit func(*http.Request) time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := fairqueue.Within(r.Context(), fairqueue.Operator, limit(r))
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

const requestIDHeader = "X-Request-ID"

// NoStore is the Cache-Control of every answer.
const NoStore = "no-store"

// headers sets what every answer has.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", NoStore)
		w.Header().Set(requestIDHeader, RequestID(r.Context()).String())
		next.ServeHTTP(w, r)
	})
}

// RequestID is the X-Request-ID of the answer.
func RequestID(ctx context.Context) uuid.UUID { return telemetry.EventOf(ctx).RequestID }

// recovered turns a panic into an opaque error, where the answer has not begun already.
func (a *API) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			switch cause := recover(); {
			case cause == nil:
			case cause == any(http.ErrAbortHandler), ww.Status() != 0:
				panic(cause)
			default:
				a.Fail(ww, r, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			}
		}()
		next.ServeHTTP(ww, r)
	})
}

func (a *API) noOperation(w http.ResponseWriter, r *http.Request) { a.Fail(w, r, errNoOperation) }

// look finds how to tell err; known is false for what only the log may say.
func (a *API) look(err error) (told Failure, fields ContentError, known bool) {
	if errors.As(err, &fields) {
		return invalidContent, fields, true
	}
	for _, failure := range a.failures {
		if errors.Is(err, failure.Err) {
			return failure, nil, true
		}
	}
	return fault, nil, false
}

// problem is the body of an error (RFC 9457).
type problem struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	RequestID uuid.UUID    `json:"request_id"`
	Errors    ContentError `json:"errors,omitempty"`
}

// Fail answers with an error, whoever found it.
func (a *API) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if written, ok := w.(middleware.WrapResponseWriter); ok && written.Status() != 0 {
		return // the answer was on its way when the connection broke
	}
	told, fields, known := a.look(err)
	event := telemetry.EventOf(r.Context())
	event.Code = told.Name
	if !known {
		event.Cause = err
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(told.Status)
	// It fails only where nobody reads it any more.
	_ = json.NewEncoder(w).Encode(problem{TypePrefix + told.Name, told.Title, told.Status, event.RequestID, fields})
}
