package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5/middleware"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
)

// Errors that this edge finds itself.
var (
	errNoOperation          = errors.New("no such path or method")
	errMalformed            = errors.New("malformed request")
	errUnsupportedGrantType = errors.New("unsupported grant type")
	errUnsupportedTokenType = errors.New("unsupported token type")
	errInsufficientScope    = errors.New("insufficient scope")
	errWrongGrant           = errors.New("grant of another connection")
	errRateLimited          = errors.New("rate limited")
)

// failure is how an error is told to the caller: status, code, fixed text and, with 401 and 403, WWW-Authenticate.
// The texts are those of the document's examples; the tests compare them.
type failure struct {
	status        int
	code, message string
	challenge     string
}

// row of a table of failures.
type row struct {
	err error
	failure
}

// oauthTable are the answers of discovery, token, revoke and disconnect (specification 7.3).
var oauthTable = []row{
	{errNoOperation, failure{404, "invalid_request", "The request is malformed.", ""}},
	{errMalformed, failure{400, "invalid_request", "The request is malformed.", ""}},
	{errUnsupportedGrantType, failure{400, "unsupported_grant_type", "The grant type is not supported.", ""}},
	{errUnsupportedTokenType, failure{400, "unsupported_token_type", "The token type hint is not supported.", ""}},
	{oauth.ErrInvalidGrant, failure{400, "invalid_grant", "The code or refresh token is not valid.", ""}},
	{oauth.ErrInvalidClient, failure{401, "invalid_client", "Client authentication failed.", `Basic realm="svc-connect"`}},
}

var oauthFault = failure{500, "server_error", "The request could not be completed.", ""}

// activityTable are the answers of the three reads (specification 5.2, 7.4).
var activityTable = []row{
	{errNoOperation, failure{404, "not_found", "There is nothing here.", ""}},
	{errWrongGrant, failure{404, "not_found", "There is nothing here.", ""}},
	{errMalformed, failure{400, "invalid_request", "The request is malformed.", ""}},
	{activity.ErrDateRange, failure{400, "invalid_date_range", "The date range is missing or not allowed.", ""}},
	{activity.ErrInvalidCursor, failure{400, "invalid_cursor", "The cursor is not valid for this request.", ""}},
	{oauth.ErrInvalidAccessToken, failure{401, "invalid_access_token", "The access token is missing or not valid.",
		`Bearer realm="svc-connect", error="invalid_token"`}},
	{errInsufficientScope, failure{403, "insufficient_scope", "The access token lacks the required scope.",
		`Bearer realm="svc-connect", error="insufficient_scope"`}},
	{errRateLimited, failure{429, "rate_limited", "Too many requests.", ""}},
}

var activityFault = failure{503, "data_unavailable", "The data is temporarily unavailable.", ""}

// look finds how to tell err; known is false for what only the log may say.
func look(table []row, fault failure, err error) (told failure, known bool) {
	for _, row := range table {
		if errors.Is(err, row.err) {
			return row.failure, true
		}
	}
	return fault, false
}

const (
	readsPath       = "/connect-svc/v1/grants/"
	requestIDHeader = "X-Request-ID"
)

// isRead says whether the activity shape belongs to the path (decisions, section 2).
func isRead(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, readsPath) }

// fail answers with an error, whoever found it.
func (e *edge) fail(w http.ResponseWriter, r *http.Request, err error) {
	if written, ok := w.(middleware.WrapResponseWriter); ok && written.Status() != 0 {
		return // the answer was on its way when the connection broke
	}
	e.release(r.Context())
	event := telemetry.EventOf(r.Context())
	if errors.Is(err, fairqueue.ErrGone) {
		event.Code = telemetry.CallerLeft
		panic(http.ErrAbortHandler)
	}
	var told failure
	var known bool
	var body any
	if isRead(r) {
		told, known = look(activityTable, activityFault, err)
		body = partnerapi.ActivityError{
			Error:     partnerapi.ActivityErrorDetail{Code: partnerapi.ActivityErrorCode(told.code), Message: told.message},
			RequestId: requestID(w),
		}
	} else {
		told, known = look(oauthTable, oauthFault, err)
		body = partnerapi.OAuthError{Error: partnerapi.OAuthErrorCode(told.code), ErrorDescription: told.message}
	}
	event.Code = told.code
	if !known {
		event.Cause = err
	}
	if told.challenge != "" {
		w.Header().Set("WWW-Authenticate", told.challenge)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(told.status)
	_ = json.NewEncoder(w).Encode(body) // fails only where nobody reads it any more
}

// noOperation answers unknown paths and wrong methods.
func (e *edge) noOperation(w http.ResponseWriter, r *http.Request) { e.fail(w, r, errNoOperation) }

// IsBackend says whether a path is one that backends call, known or not; all others are for browsers (decisions,
// section 2).
func IsBackend(path string) bool {
	return strings.HasPrefix(path, "/connect-svc/") || path == "/.well-known/oauth-authorization-server" ||
		strings.HasPrefix(path, "/oauth/") && path != "/oauth/authorize"
}

// recovered turns a panic into an opaque error. Where the answer has begun already only breaking it off is left, which
// is done above.
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
