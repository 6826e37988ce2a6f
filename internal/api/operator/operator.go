package operator

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
)

// Path is where the operator API begins.
const Path = "/operator/"

// Config of the edge. Every field is required.
type Config struct {
	TokenHash []byte // credential.Hash of the operator token
	Accounts  *account.Accounts
	Activity  *activity.Store
	OAuth     *oauth.Server
}

// edge is the configuration with the document.
type edge struct {
	Config
	api *contract.API
}

// handlers has the operations, in the files beside this one.
type handlers struct{ *edge }

var _ operatorapi.StrictServerInterface = handlers{}

// New returns the handler for the paths below [Path]. Mount it behind telemetry.Requests, which makes the request ids. It
// fails only if the embedded document cannot be read.
func New(config Config) (http.Handler, error) {
	api, err := contract.NewAPI(operatorapi.GetSpecJSON, failures...)
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	e := &edge{config, api}
	strict := operatorapi.NewStrictHandlerWithOptions(handlers{e}, nil, operatorapi.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: api.Fail, ResponseErrorHandlerFunc: api.Fail,
	})
	return api.Handler(func(router chi.Router) {
		operatorapi.HandlerWithOptions(strict, operatorapi.ChiServerOptions{BaseRouter: router, ErrorHandlerFunc: api.Fail})
	}, e.authenticate, contract.Timed(timeOf)), nil
}

// timeOf is the time limit of a request.
func timeOf(r *http.Request) time.Duration {
	if r.URL.Path == Path+"v1/activity" || r.URL.Path == Path+"v1/users" && r.Method == http.MethodPut {
		return contract.BatchTime
	}
	return contract.RequestTime
}

var errUnauthorized = errors.New("no operator token")

// failures are the errors of this edge. The tests compare their texts with the document's examples.
var failures = []contract.Failure{
	{Err: errUnauthorized, Code: "unauthorized", Text: "The operator token is missing or wrong.", Status: 401,
		Challenge: `Bearer realm="svc-operator"`},
	{Err: account.ErrUserNotFound, Code: "user-not-found", Text: "There is no such user.", Status: 404},
	{Err: account.ErrUserExists, Code: "user-exists", Text: "A user with this id exists.", Status: 409},
	{Err: account.ErrUserDeleted, Code: "user-deleted", Text: "A user with this id was deleted.", Status: 409},
	{Err: account.ErrEmailTaken, Code: "email-taken", Text: "Another user has this e-mail address.", Status: 409},
	{Err: oauth.ErrNotConnected, Code: "not-connected", Text: "The user is not connected with this company.", Status: 404},
}

// authenticate requires the operator token in exactly one Authorization header (RFC 6750, section 2.1). It compares hashes
// in constant time, so that the duration reveals neither the token nor its length.
func (e *edge) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.authenticated(r.Header.Values("Authorization")) {
			e.api.Fail(w, r, errUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (e *edge) authenticated(given []string) bool {
	if len(given) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	return strings.EqualFold(scheme, "Bearer") && credential.MatchesHash(token, e.TokenHash)
}
