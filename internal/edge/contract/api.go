package contract

import (
	"errors"
	"net/http"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// TypePrefix begins the types of problems.
const TypePrefix = "urn:connect-svc:problem:"

const jsonType = "application/json"

var (
	errNoOperation    = errors.New("no such path or method")
	errInvalidContent = errors.New("invalid fields") // every ContentError is this error
)

// API is an edge whose bodies are JSON, and whose errors are problem details (RFC 9457).
type API struct {
	Budget     *Budget      // of the memory for bodies; nil: unlimited
	Limits     *work.Limits // of requests' time; nil: they end with their contexts
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
			Failure{Err: errInvalidContent, Code: "invalid-content", Text: "Fields of the request are invalid.", Status: 422},
		),
		Fault:       Failure{Code: "server-error", Text: "The request could not be completed.", Status: 500},
		ContentType: "application/problem+json",
		Body:        problemOf,
	}}, nil
}

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
	return problem{TypePrefix + failure.Code, failure.Text, failure.Status, telemetry.EventOf(r.Context()).RequestID, fields.sorted()}
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
