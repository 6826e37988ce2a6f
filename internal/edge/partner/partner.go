// Package partner is the edge for partners' backends: the seven operations of api/openapi.yaml over the domains.
//
// A request passes
//
//	headers     the cache and referrer headers and the X-Request-ID of every response
//	Recovered   turns a panic into an opaque error
//	chi         path and method, or 404
//	guard       all checks before the operation itself, in the order of decisions, section 2, by the embedded document
//	generated   binds the parameters
//	handlers    one method for each operation: calls a domain, builds the response
//
// # Invariants
//
//   - Every error of a request ends in [edge.fail]. One of two tables has its status, code and text: one for reads, one for the rest. The
//     sandbox forces errors of the same tables by [Fail]. An error that is not in the table is an opaque server_error or
//     data_unavailable, and is the cause in the request's log event (TestFaults_7).
//   - The lease of a read is released before its response is written, so a client that waits for its responses never holds more leases
//     than it has open requests (TestConcurrency_8).
//   - The package never queries the database, never decides what a credential may do, and never logs a path, a query or a body
//     (TestEvents).
package partner

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
)

// Config of the edge. Every field is required.
type Config struct {
	BaseURL  string // the issuer, an exact https origin
	OAuth    *oauth.Server
	Activity *activity.Store
	Limiter  *ratelimit.Limiter
	Logger   *slog.Logger
	Now      func() time.Time // for snapshot_at
	Limits   work.Limits      // of requests' time
}

// edge implements the operations. The guard runs before them. If one returns an error, the generated server writes the error and ignores
// the response.
type edge struct {
	Config
	operations map[string]*operation // by method and path, such as "POST /oauth/token"
	metadata   partnerapi.AuthorizationServerMetadata
}

// New serves the seven operations, and 404 for everything else, at the paths of [IsBackend]. Mount it behind telemetry.Requests, which
// makes the request ids. It fails only if the embedded document is not usable.
func New(config Config) (http.Handler, error) {
	operations, err := readOperations()
	if err != nil {
		return nil, fmt.Errorf("partner API: %w", err)
	}
	config.Limits = config.Limits.OrDefault()
	e := &edge{Config: config, operations: operations, metadata: metadata(config.BaseURL)}

	router := chi.NewRouter()
	router.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			setHeaders(w, r)
			next.ServeHTTP(w, r)
		})
	}, contract.Recovered(e.fail))
	router.NotFound(e.noOperation)
	router.MethodNotAllowed(e.noOperation) // specification 4: a wrong method is 404

	strict := partnerapi.NewStrictHandlerWithOptions(e, []partnerapi.StrictMiddlewareFunc{e.releasing},
		partnerapi.StrictHTTPServerOptions{RequestErrorHandlerFunc: e.fail, ResponseErrorHandlerFunc: e.fail})
	partnerapi.HandlerWithOptions(strict, partnerapi.ChiServerOptions{
		BaseRouter:       router.With(e.guard), // between routing and binding
		ErrorHandlerFunc: e.bindingFailed,
	})
	return router, nil
}
