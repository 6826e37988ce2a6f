package operator

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Path begins every path of the operator API.
const Path = "/operator/"

// Config of the edge. Every field but the last two is required.
type Config struct {
	Operators *operators.Tokens
	Accounts  *account.Accounts
	Activity  *activity.Store
	OAuth     *oauth.Server
	Clients   *client.Registry
	Webhooks  *webhook.Webhooks
	Usage     *usage.Usage
	Audit     *audit.Log
	Finder    lookup.Finder
	Portal    *portal.Portal
	BaseURL   string // of the public listener, which serves the portal
	Now       func() time.Time
	Limits    work.Limits      // of requests' time
	Budget    *contract.Budget // of the memory for bodies; nil: unlimited
}

// handlers implements the operations. If one returns an error, the generated server writes the error and ignores the response.
type handlers struct {
	Config
	api       *contract.API
	inProcess bool // see NewInProcess
}

var _ operatorapi.StrictServerInterface = handlers{}

// New returns the handler for the paths below [Path]. Mount it behind telemetry.Requests, which makes the request ids. It fails only
// if the embedded document is not usable.
func New(config Config) (http.Handler, error) {
	api, err := newAPI(config)
	if err != nil {
		return nil, err
	}
	api.Limits = new(config.Limits.OrDefault())
	h := handlers{config, api, false}
	return h.handler(h.authenticate), nil
}

// NewInProcess returns the handler for a caller in the same process, such as the command line. It requires no token: the actor is
// that of the request's context. It sets no time limit: the request ends with its context. Config needs no Operators and Limits.
func NewInProcess(config Config) (http.Handler, error) {
	api, err := newAPI(config)
	if err != nil {
		return nil, err
	}
	return handlers{config, api, true}.handler(), nil
}

var document = contract.Document(operatorapi.GetSpecJSON)

func newAPI(config Config) (*contract.API, error) {
	api, err := contract.NewAPI(document, failures...)
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	api.Budget = config.Budget
	return api, nil
}

func (h handlers) handler(middleware ...func(http.Handler) http.Handler) http.Handler {
	strict := operatorapi.NewStrictHandlerWithOptions(h, nil, operatorapi.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  h.api.Fail,
		ResponseErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { h.api.Fail(w, r, Fields(err)) },
	})
	return h.api.Handler(func(router chi.Router) {
		operatorapi.HandlerWithOptions(strict, operatorapi.ChiServerOptions{BaseRouter: router, ErrorHandlerFunc: h.api.Fail})
	}, middleware...)
}

var (
	errUnauthorized = errors.New("no operator token")
	// errNotReplayable stands for webhook.ErrNoEndpoint if the request names an event.
	errNotReplayable = errors.New("the client of the event has no webhook")
)

// Unauthorized is the code of a request without a token.
const Unauthorized = "unauthorized"

// failures lists the errors of this edge. Tests compare the texts with the document's examples.
var failures = []contract.Failure{
	{Err: errUnauthorized, Code: Unauthorized, Text: "The operator token is missing or wrong.", Status: 401,
		Challenge: `Bearer realm="svc-operator"`},
	{Err: operators.ErrReadOnly, Code: "read-only", Text: "The operator token may not change anything.", Status: 403},
	{Err: refusal.ErrUserNotFound, Code: "user-not-found", Text: "There is no such user.", Status: 404},
	{Err: account.ErrUserExists, Code: "user-exists", Text: "A user with this id exists.", Status: 409},
	{Err: account.ErrUserDeleted, Code: "user-deleted", Text: "A user with this id was deleted.", Status: 409},
	{Err: account.ErrEmailTaken, Code: "email-taken", Text: "Another user has this e-mail address.", Status: 409},
	{Err: page.ErrCursor, Code: "invalid-cursor", Text: "The cursor does not continue this list.", Status: 400},
	{Err: refusal.ErrClientNotFound, Code: "client-not-found", Text: "There is no such client.", Status: 404},
	{Err: refusal.ErrClientOffboarded, Code: "client-offboarded", Text: "The client was offboarded.", Status: 409},
	{Err: portal.ErrClientDisabled, Code: "client-disabled", Text: "The client is disabled.", Status: 409},
	{Err: portal.ErrTooMany, Code: "too-many-portal-sessions", Text: "The client has as many links and sessions as it may have.", Status: 409},
	{Err: portal.ErrNoSession, Code: "portal-session-not-found", Text: "There is no such link or session.", Status: 404},
	{Err: client.ErrNoChangeRequest, Code: "change-request-not-found", Text: "There is no such request for a change.", Status: 404},
	{Err: lookup.ErrSeveral, Code: "several-clients", Text: "Several clients have this name.", Status: 409},
	{Err: webhook.ErrNoEndpoint, Code: "no-webhook", Text: "The client has no webhook.", Status: 404},
	{Err: errNotReplayable, Code: "not-replayable", Text: "The client of the event has no webhook any more.", Status: 409},
	{Err: webhook.ErrStopped, Code: "webhook-stopped", Text: "The webhook was stopped.", Status: 409},
	{Err: webhook.ErrNoEvent, Code: "webhook-event-not-found", Text: "There is no such event.", Status: 404},
	contract.Busy,
	{Err: oauth.ErrNotConnected, Code: "not-connected", Text: "The user is not connected with this company.", Status: 404},
}

// authenticate requires an operator token in exactly one Authorization header (RFC 6750, section 2.1), and makes its holder the
// actor. Every method except GET changes something.
func (h handlers) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder, known := h.holder(r.Header.Values("Authorization"))
		telemetry.EventOf(r.Context()).Operator = holder.Name
		switch {
		case !known:
			h.api.Fail(w, r, errUnauthorized)
		case holder.ReadOnly && r.Method != http.MethodGet:
			h.api.Fail(w, r, operators.ErrReadOnly)
		default:
			next.ServeHTTP(w, r.WithContext(work.WithActor(r.Context(), holder.Name)))
		}
	})
}

func (h handlers) holder(given []string) (holder operators.Operator, known bool) {
	if len(given) != 1 {
		return holder, false
	}
	token, isBearer := contract.Authorization(given[0], "Bearer")
	if !isBearer {
		return holder, false
	}
	return h.Operators.Find(token)
}

// each converts rows to bodies. The list is never null in JSON.
func each[T, B any](rows []T, body func(T) B) []B {
	bodies := make([]B, len(rows))
	for i, row := range rows {
		bodies[i] = body(row)
	}
	return bodies
}
