package partner

import (
	"errors"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Errors of this edge.
var (
	errNoOperation          = errors.New("no such path or method")
	errMalformed            = contract.ErrMalformed
	errUnsupportedGrantType = errors.New("grant_type is not authorization_code or refresh_token")
	errUnsupportedTokenType = errors.New("token_type_hint is not access_token or refresh_token")
	errInsufficientScope    = errors.New("insufficient scope")
	errWrongGrant           = errors.New("grant_id is not that of the access token")
	errRateLimited          = errors.New("rate limited")
)

func malformed(reason string) error { return refusal.Because(errMalformed, reason) }

// oauthFailures lists the errors of discovery, token, revoke and disconnect (specification 7.3). Tests compare the texts with the
// document's examples.
var oauthFailures = contract.Failures{
	Table: []contract.Failure{
		{Err: errNoOperation, Status: 404, Code: "invalid_request", Text: "The request is malformed."},
		{Err: errMalformed, Status: 400, Code: "invalid_request", Text: "The request is malformed."},
		{Err: errUnsupportedGrantType, Status: 400, Code: "unsupported_grant_type", Text: "The grant type is not supported."},
		{Err: errUnsupportedTokenType, Status: 400, Code: "unsupported_token_type", Text: "The token type hint is not supported."},
		{Err: oauth.ErrInvalidGrant, Status: 400, Code: "invalid_grant", Text: "The code or refresh token is not valid."},
		{Err: oauth.ErrInvalidClient, Status: 401, Code: "invalid_client", Text: "Client authentication failed.",
			Challenge: `Basic realm="svc-connect"`},
	},
	Fault:       contract.Failure{Status: 500, Code: "server_error", Text: "The request could not be completed."},
	ContentType: "application/json",
	Body: func(_ *http.Request, failure contract.Failure, _ error) any {
		return partnerapi.OAuthError{Error: partnerapi.OAuthErrorCode(failure.Code), ErrorDescription: failure.Text}
	},
}

// readFailures lists the errors of the three reads (specification 5.2, 7.4).
var readFailures = contract.Failures{
	Table: []contract.Failure{
		{Err: errNoOperation, Status: 404, Code: "not_found", Text: "There is nothing here."},
		{Err: errWrongGrant, Status: 404, Code: "not_found", Text: "There is nothing here."},
		{Err: errMalformed, Status: 400, Code: "invalid_request", Text: "The request is malformed."},
		{Err: activity.ErrDateRange, Status: 400, Code: "invalid_date_range", Text: "The date range is missing or not allowed."},
		{Err: activity.ErrInvalidCursor, Status: 400, Code: "invalid_cursor", Text: "The cursor is not valid for this request."},
		{Err: oauth.ErrInvalidAccessToken, Status: 401, Code: "invalid_access_token", Text: "The access token is missing or not valid.",
			Challenge: `Bearer realm="svc-connect", error="invalid_token"`},
		{Err: errInsufficientScope, Status: 403, Code: "insufficient_scope", Text: "The access token lacks the required scope.",
			Challenge: `Bearer realm="svc-connect", error="insufficient_scope"`},
		{Err: errRateLimited, Status: 429, Code: "rate_limited", Text: "Too many requests."},
	},
	Fault:       contract.Failure{Status: 503, Code: "data_unavailable", Text: "The data is temporarily unavailable."},
	ContentType: "application/json",
	Body: func(r *http.Request, failure contract.Failure, _ error) any {
		return readError{Error: readErrorDetail{failure.Code, failure.Text}, RequestID: telemetry.EventOf(r.Context()).RequestID}
	},
}

// readError is the body of every error of a read. The document has a schema for each status. They differ only in the listed codes.
type readError struct {
	Error     readErrorDetail `json:"error"`
	RequestID uuid.UUID       `json:"request_id"`
}

type readErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// isRead reports whether errors of a path have the shape of reads (decisions, section 2).
func isRead(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/connect-svc/v1/grants/") }

func failuresOf(r *http.Request) *contract.Failures {
	if isRead(r) {
		return &readFailures
	}
	return &oauthFailures
}

// fail writes the response to an error, and releases the lease of a read.
func (e *edge) fail(w http.ResponseWriter, r *http.Request, err error) {
	e.release(r.Context())
	if errors.Is(err, work.ErrGone) {
		telemetry.EventOf(r.Context()).Code = telemetry.CallerLeft
		panic(http.ErrAbortHandler)
	}
	write(w, r, err)
}

func write(w http.ResponseWriter, r *http.Request, err error) {
	if !isRead(r) && work.NotAttempted(err) { // decisions, section 5
		SayNotAttempted(w.Header())
	}
	failuresOf(r).Write(w, r, err)
}

// SayNotAttempted adds to an error that the request had no effect, and when it may be sent again.
func SayNotAttempted(header http.Header) {
	header.Set("Connect-Outcome", "not-attempted")
	header.Set("Retry-After", "1")
}

// FailBusy refuses a request because the server has no place for it. It says that nothing was attempted. Call it behind
// telemetry.Requests.
func FailBusy(w http.ResponseWriter, r *http.Request) {
	setHeaders(w, r)
	write(w, r, work.ErrFull)
}

func (e *edge) noOperation(w http.ResponseWriter, r *http.Request) { e.fail(w, r, e.unknown(r)) }

// unknown returns errNoOperation with the operation that is probably meant, by the end of the path.
func (e *edge) unknown(r *http.Request) error {
	end := path.Base(r.URL.Path)
	if uuid.Validate(end) == nil && (r.Method == http.MethodDelete || strings.Contains(r.URL.Path, "/customer/")) {
		end = "{" + grantID + "}"
	}
	operations := map[string]string{} // by the ends of their paths, which differ
	for route := range e.operations {
		operations[path.Base(route)] = route
	}
	if meant := operations[refusal.Nearest(end, slices.Sorted(maps.Keys(operations)))]; meant != "" {
		return refusal.Because(errNoOperation, errNoOperation.Error()+": perhaps "+meant+" is meant")
	}
	return errNoOperation
}

// IsBackend reports whether a path, known or not, is for backends. All others are for browsers (decisions, section 2).
func IsBackend(path string) bool {
	return strings.HasPrefix(path, "/connect-svc/") || path == "/.well-known/oauth-authorization-server" ||
		strings.HasPrefix(path, "/oauth/") && path != "/oauth/authorize"
}

// Fail writes the error with a status and a code, as the operation of the request's path does. budget is nil if the request was not
// counted. If the path has no such error, Fail writes nothing and returns false. Call it behind telemetry.Requests.
func Fail(w http.ResponseWriter, r *http.Request, status int, code string, budget *ratelimit.Decision) bool {
	failures := failuresOf(r)
	for _, failure := range append([]contract.Failure{failures.Fault}, failures.Table...) {
		if failure.Status == status && failure.Code == code {
			setHeaders(w, r)
			if budget != nil {
				budgetHeaders(w.Header(), budget)
			}
			failures.WriteFailure(w, r, failure, nil)
			return true
		}
	}
	return false
}
