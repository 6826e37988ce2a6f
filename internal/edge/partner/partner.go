package partner

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/work"
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
	router.Use(headers, contract.Recovered(e.fail))
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
