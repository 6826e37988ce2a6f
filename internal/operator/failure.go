package operator

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5/middleware"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/account"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
)

// Errors that this edge finds itself; contentError is the other one.
var (
	errUnauthorized = errors.New("no operator token")
	errNoOperation  = errors.New("no such path or method")
	errMalformed    = errors.New("malformed request")
	errMediaType    = errors.New("not JSON")
	errTooLarge     = errors.New("body too large")
)

// failure is how an error is told to the caller: the last part of its type, its fixed text, its status.
type failure struct {
	name, title string
	status      int
}

const (
	typePrefix = "urn:connect-svc:problem:"
	challenge  = `Bearer realm="svc-operator"`
)

// table are all answers that are errors. The texts are those of the document's examples; the tests compare them.
var table = []struct {
	err error
	failure
}{
	{errUnauthorized, failure{"unauthorized", "The operator token is missing or wrong.", 401}},
	{errNoOperation, failure{"not-found", "There is nothing here.", 404}},
	{errMalformed, failure{"malformed-request", "The request is malformed.", 400}},
	{errMediaType, failure{"unsupported-media-type", "The body must be application/json.", 415}},
	{errTooLarge, failure{"too-large", "The body is too large.", 413}},
	{account.ErrUserNotFound, failure{"user-not-found", "There is no such user.", 404}},
	{account.ErrUserExists, failure{"user-exists", "A user with this id exists.", 409}},
	{account.ErrUserDeleted, failure{"user-deleted", "A user with this id was deleted.", 409}},
	{account.ErrEmailTaken, failure{"email-taken", "Another user has this e-mail address.", 409}},
	{oauth.ErrNotConnected, failure{"not-connected", "The user is not connected with this company.", 404}},
}

var (
	invalidContent = failure{"invalid-content", "Fields of the request are invalid.", 422}
	fault          = failure{"server-error", "The request could not be completed.", 500}
)

// look finds how to tell err; known is false for what only the log may say.
func look(err error) (told failure, fields contentError, known bool) {
	if errors.As(err, &fields) {
		return invalidContent, fields, true
	}
	for _, row := range table {
		if errors.Is(err, row.err) {
			return row.failure, nil, true
		}
	}
	return fault, nil, false
}

// fail answers with an error, whoever found it.
func (e *edge) fail(w http.ResponseWriter, r *http.Request, err error) {
	if written, ok := w.(middleware.WrapResponseWriter); ok && written.Status() != 0 {
		return // the answer was on its way when the connection broke
	}
	told, fields, known := look(err)
	event := telemetry.EventOf(r.Context())
	event.Code = told.name
	if !known {
		event.Cause = err
	}
	problem := operatorapi.Problem{
		Type:      operatorapi.ProblemType(typePrefix + told.name),
		Title:     told.title,
		Status:    told.status,
		RequestId: event.RequestID,
	}
	if len(fields) > 0 {
		problem.Errors = (*[]operatorapi.FieldError)(&fields)
	}
	if told.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(told.status)
	_ = json.NewEncoder(w).Encode(problem) // fails only where nobody reads it any more
}
