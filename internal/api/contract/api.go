package contract

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/telemetry"
)

// TypePrefix begins the types of problems.
const TypePrefix = "urn:connect-svc:problem:"

// jsonType is the media type of bodies.
const jsonType = "application/json"

var (
	errNoOperation    = errors.New("no such path or method")
	errInvalidContent = errors.New("invalid fields") // what every ContentError is
)

// API is an edge whose bodies are JSON, and whose errors are problem details (RFC 9457).
type API struct {
	Budget     *Budget // of the memory for bodies; nil: no bound
	operations map[string]*Operation
	failures   Failures
}

// NewAPI reads the document from what was generated of it. Failures are the errors of the edge's own. An error says that
// the embedded document is not what this package can work with.
func NewAPI(text func() ([]byte, error), failures ...Failure) (*API, error) {
	operations, err := Read(text, jsonType)
	if err != nil {
		return nil, err
	}
	return &API{nil, operations, Failures{
		Table: append(failures,
			Failure{Err: errNoOperation, Code: "not-found", Text: "There is nothing here.", Status: 404},
			Failure{Err: ErrMalformed, Code: "malformed-request", Text: "The request is malformed.", Status: 400},
			Failure{Err: ErrMediaType, Code: "unsupported-media-type", Text: "The body must be application/json.", Status: 415},
			Failure{Err: ErrTooLarge, Code: "too-large", Text: "The body is too large.", Status: 413},
			Failure{Err: errInvalidContent, Code: "invalid-content", Text: "Fields of the request are invalid.", Status: 422},
		),
		Fault:       Failure{Code: "server-error", Text: "The request could not be completed.", Status: 500},
		ContentType: "application/problem+json",
		Body:        problemOf,
	}}, nil
}

// problem is the body of an error.
type problem struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	RequestID uuid.UUID    `json:"request_id"`
	Errors    ContentError `json:"errors,omitempty"`
}

func problemOf(r *http.Request, failure Failure, err error) any {
	var fields ContentError
	_ = errors.As(err, &fields)
	return problem{TypePrefix + failure.Code, failure.Text, failure.Status, RequestID(r.Context()), fields.sorted()}
}

// Fail responds with an error.
func (a *API) Fail(w http.ResponseWriter, r *http.Request, err error) { a.failures.Write(w, r, err) }

// Handler serves the operations that mount adds to its router, and 404 for everything else, wrong methods included. The
// middleware comes before routing. telemetry.Requests, which makes the request ids, must come before the handler.
func (a *API) Handler(mount func(chi.Router), middleware ...func(http.Handler) http.Handler) http.Handler {
	noOperation := func(w http.ResponseWriter, r *http.Request) { a.Fail(w, r, errNoOperation) }
	router := chi.NewRouter()
	router.Use(headers, Recovered(a.Fail))
	router.Use(middleware...)
	router.NotFound(noOperation)
	router.MethodNotAllowed(noOperation)
	mount(router.With(a.guard)) // after routing, before anything is bound
	return router
}

// Timed is middleware that gives each request of the operator this time, whether its caller stays or not.
func Timed(limit func(*http.Request) time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := fairqueue.Within(r.Context(), fairqueue.Caller{Kind: fairqueue.Operator}, limit(r))
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// NoStore is the Cache-Control of every response.
const NoStore = "no-store"

// headers sets the headers of every response.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", NoStore)
		w.Header().Set("X-Request-ID", RequestID(r.Context()).String())
		next.ServeHTTP(w, r)
	})
}

// RequestID is the X-Request-ID of the response.
func RequestID(ctx context.Context) uuid.UUID { return telemetry.EventOf(ctx).RequestID }

// guard passes a request on to its operation if its shape and its body are as the document says. It checks in the order that
// the document promises. It reads the body and puts it back.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := a.operations[Route(r)]
		telemetry.EventOf(r.Context()).Operation = op.ID
		err := op.checkQuery(r)
		switch {
		case !op.CheckPath(r):
			err = errNoOperation
		case err != nil:
		case op.Body == nil && HasBody(r):
			err = ErrMalformed
		case op.Body != nil:
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
