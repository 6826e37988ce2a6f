package operator

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
)

// Path is where the operator API begins.
const Path = "/operator/"

// Config is what the edge is made of. All of it is needed.
type Config struct {
	TokenHash []byte // credential.Hash of the operator token
	Accounts  *account.Accounts
	Activity  *activity.Activity
	OAuth     *oauth.Server
}

// edge is the configuration with what was read from the document.
type edge struct {
	Config
	operations map[string]*operation // by method and path, as in "GET /operator/v1/users/{user_id}"
}

// handlers are the operations, in the files beside this one.
type handlers struct{ *edge }

var _ operatorapi.StrictServerInterface = handlers{}

// New answers the paths below [Path]. Mount it behind telemetry.Requests, which makes the request ids. An error says that
// the embedded document is not what this package can work with.
func New(config Config) (http.Handler, error) {
	operations, err := readContract()
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	e := &edge{config, operations}

	router := chi.NewRouter()
	router.Use(headers, e.recovered, e.authenticate)
	router.NotFound(e.noOperation)
	router.MethodNotAllowed(e.noOperation) // a wrong method is 404, as in the partner API

	strict := operatorapi.NewStrictHandlerWithOptions(handlers{e}, nil, operatorapi.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: e.fail, ResponseErrorHandlerFunc: e.fail,
	})
	operatorapi.HandlerWithOptions(strict, operatorapi.ChiServerOptions{
		BaseRouter:       router.With(e.guard), // after routing, before anything is bound
		ErrorHandlerFunc: e.fail,
	})
	return router, nil
}

const (
	requestIDHeader = "X-Request-ID"
	noStore         = "no-store"
)

// headers sets what every answer has.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", noStore)
		w.Header().Set(requestIDHeader, requestID(r.Context()).String())
		next.ServeHTTP(w, r)
	})
}

func requestID(ctx context.Context) uuid.UUID { return telemetry.EventOf(ctx).RequestID }

// recovered turns a panic into an opaque error, where the answer has not begun already.
func (e *edge) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			switch cause := recover(); {
			case cause == nil:
			case cause == any(http.ErrAbortHandler), ww.Status() != 0:
				panic(cause)
			default:
				e.fail(ww, r, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			}
		}()
		next.ServeHTTP(ww, r)
	})
}

// authenticate wants the operator token as the one Authorization header (RFC 6750, section 2.1). Hashes are compared, in
// constant time: neither the token nor its length shows in how long that takes.
func (e *edge) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Values("Authorization")
		if len(given) != 1 {
			e.fail(w, r, errUnauthorized)
			return
		}
		scheme, token, _ := strings.Cut(given[0], " ")
		if !strings.EqualFold(scheme, "Bearer") || !credential.MatchesHash(token, e.TokenHash) {
			e.fail(w, r, errUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noOperation answers unknown paths and wrong methods.
func (e *edge) noOperation(w http.ResponseWriter, r *http.Request) { e.fail(w, r, errNoOperation) }
