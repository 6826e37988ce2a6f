package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/edge/operator"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
)

// driver has the operations of api/sandbox.yaml, in this file and in those named after their subject. If an operation returns an error,
// the generated server ignores its response.
type driver struct{ *sandbox }

var _ sandboxapi.StrictServerInterface = driver{}

// Errors of the driver. The tests compare the texts with the document's examples.
var (
	errUserNotFound  = errors.New("no such user")
	errScopeMismatch = errors.New("connected with other scopes")

	failures = []contract.Failure{
		{Err: refusal.ErrClientNotFound, Code: "client-not-found", Text: "There is no such client.", Status: 404},
		{Err: refusal.ErrClientOffboarded, Code: "client-offboarded", Text: "The client was offboarded.", Status: 409},
		{Err: portal.ErrClientDisabled, Code: "client-disabled", Text: "The client is disabled.", Status: 409},
		{Err: webhook.ErrNoEvent, Code: "webhook-not-found", Text: "There is no such webhook.", Status: 404},
		{Err: webhook.ErrNoEndpoint, Code: "no-webhook", Text: "The client has no webhook any more.", Status: 409},
		{Err: webhook.ErrStopped, Code: "webhook-stopped", Text: "The webhook was stopped.", Status: 409},
		{Err: errUserNotFound, Code: "user-not-found", Text: "There is no such user.", Status: 404},
		{Err: oauth.ErrNotConnected, Code: "not-connected", Text: "The user is not connected with this company.", Status: 404},
		{Err: errScopeMismatch, Code: "scope-mismatch", Text: "The user is connected with other scopes.", Status: 409},
	}
)

var document = contract.Document(sandboxapi.GetSpecJSON)

func newDriver(s *sandbox, limits *work.Limits) (http.Handler, error) {
	api, err := contract.NewAPI(document, failures...)
	if err != nil {
		return nil, err
	}
	strict := sandboxapi.NewStrictHandlerWithOptions(driver{s}, nil, sandboxapi.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  api.Fail,
		ResponseErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { api.Fail(w, r, operator.Fields(err)) },
	})
	api.Limits = limits
	return api.Handler(func(router chi.Router) {
		sandboxapi.HandlerWithOptions(strict, sandboxapi.ChiServerOptions{BaseRouter: router, ErrorHandlerFunc: api.Fail})
	}), nil
}

// driving adds the driver to the private listener. It reads s.driver late: the service is opened before the driver.
func (s *sandbox) driving(others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, isBearer := contract.Authorization(r.Header.Get("Authorization"), "Bearer")
		token := s.config.DriverToken // empty: none is needed
		switch {
		case !site.IsBelow(r.URL.Path, "/sandbox"):
			others.ServeHTTP(w, r)
		case token == "" || isBearer && credential.MatchesHash(given, credential.Hash(token)):
			s.driver.ServeHTTP(w, r)
		default:
			telemetry.EventOf(r.Context()).Code = "unauthorized"
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "The driver needs its token (--driver-token).", http.StatusUnauthorized)
		}
	})
}

// ReadSandbox returns the addresses and credentials that a test needs.
func (d driver) ReadSandbox(ctx context.Context, _ sandboxapi.ReadSandboxRequestObject) (sandboxapi.ReadSandboxResponseObject, error) {
	return sandboxapi.ReadSandbox200JSONResponse(d.describe()), nil
}

// CreateUser adds a user of a kind.
func (d driver) CreateUser(ctx context.Context, request sandboxapi.CreateUserRequestObject) (sandboxapi.CreateUserResponseObject, error) {
	user, err := d.addPerson(ctx, request.Body.Kind, or(request.Body.Timezone, "UTC"))
	return sandboxapi.CreateUser201JSONResponse(user), err
}

// DisconnectUser ends a connection as its user.
func (d driver) DisconnectUser(ctx context.Context, request sandboxapi.DisconnectUserRequestObject) (sandboxapi.DisconnectUserResponseObject, error) {
	return sandboxapi.DisconnectUser204Response{}, d.service.OAuth.DisconnectUser(ctx, request.UserId, request.ClientId)
}

// DecideAuthorization acts as a user with a browser. It calls the domain as package pages does: it checks the request, signs the user
// in, and takes the decision of the consent page. It returns the address to which the browser is redirected.
func (d driver) DecideAuthorization(
	ctx context.Context, request sandboxapi.DecideAuthorizationRequestObject,
) (sandboxapi.DecideAuthorizationResponseObject, error) {
	address, user := request.Body.AuthorizationUrl, request.Body.UserId
	query, ok := strings.CutPrefix(address, d.baseURL+"/oauth/authorize?")
	if !ok || strings.Contains(query, "#") {
		return nil, refusal.Field{Path: "authorization_url", Problem: "must be the sandbox's base_url with /oauth/authorize and a query"}
	}
	if !d.people.has(user) {
		return nil, refusal.Field{Path: "user_id", Problem: "must be a user of the sandbox"}
	}
	browser := sha256.Sum256([]byte(rand.Text()))
	server := d.service.OAuth
	asked, err := server.Authorize(ctx, query, len(address), browser)
	if refused := (*oauth.AuthorizeError)(nil); errors.As(err, &refused) {
		return nil, refusal.Field{Path: "authorization_url", Problem: string(refused.Cause) + ": " + refused.Reason}
	}
	if err != nil {
		return nil, err
	}
	if err := server.SignIn(ctx, asked, browser, browser, user); err != nil {
		return nil, err
	}
	consent, err := server.Consent(ctx, asked.ID, browser)
	if err != nil {
		return nil, err
	}
	if request.Body.Decision == sandboxapi.AuthorizationDecisionDecisionDeny {
		location, err := server.Deny(ctx, asked.ID, browser)
		return sandboxapi.DecideAuthorization200JSONResponse{RedirectUrl: location}, err
	}
	if consent.ScopeMismatch {
		return nil, errScopeMismatch
	}
	location, err := server.Allow(ctx, asked.ID, browser, "")
	if err != nil {
		return nil, err
	}
	callback, err := url.Parse(location)
	if err != nil {
		return nil, err
	}
	return sandboxapi.DecideAuthorization200JSONResponse{RedirectUrl: location, Code: new(callback.Query().Get("code"))}, nil
}
