package partner

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/oauth"
	"connect-svc/internal/ratelimit"
	"connect-svc/internal/timelimit"
)

// Config is what the edge is made of. All of it is needed.
type Config struct {
	BaseURL  string // the issuer, an exact https origin
	OAuth    *oauth.Server
	Activity *activity.Store
	Limiter  *ratelimit.Limiter
	Logger   *slog.Logger
	Now      func() time.Time // for snapshot_at
	Limits   timelimit.Limits // of the time that a request may take
}

// edge is the configuration with what was read from the document.
type edge struct {
	Config
	operations map[string]*operation // by method and path, as in "POST /oauth/token"
	metadata   partnerapi.AuthorizationServerMetadata
}

// New serves the seven operations, and 404 for everything else, at the paths of [IsBackend]. telemetry.Requests, which makes the
// request ids, must come before it. An error says that this package cannot work with the embedded document.
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
	router.MethodNotAllowed(e.noOperation) // a wrong method is 404, too (specification 4)

	strict := partnerapi.NewStrictHandlerWithOptions(handlers{e}, []partnerapi.StrictMiddlewareFunc{e.releasing},
		partnerapi.StrictHTTPServerOptions{RequestErrorHandlerFunc: e.fail, ResponseErrorHandlerFunc: e.fail})
	partnerapi.HandlerWithOptions(strict, partnerapi.ChiServerOptions{
		BaseRouter:       router.With(e.guard), // after routing, before anything is bound
		ErrorHandlerFunc: e.bindingFailed,
	})
	return router, nil
}
