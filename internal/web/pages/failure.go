package browser

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/account"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
)

// Errors of the pages themselves.
var (
	errNotFound    = errors.New("no such page")
	errBadForm     = errors.New("not a form of ours")
	errForeignForm = errors.New("a form of another site")
)

// failure is what a user is told when something cannot be done.
type failure struct {
	status int
	view   string // the template
	code   string // for the log; where it is one of specification 7.2 the page shows it, small
}

// told is the one table of how an error is answered. Errors that are not in it are faults of ours.
func told(err error) (answer failure, known bool) {
	var refused *oauth.AuthorizeError
	switch {
	case errors.As(err, &refused):
		return failure{http.StatusBadRequest, "refused", string(refused.Cause)}, true
	case errors.Is(err, oauth.ErrRequestEnded):
		return failure{http.StatusBadRequest, "ended", string(oauth.InvalidRequest)}, true
	case errors.Is(err, errBadForm):
		return failure{http.StatusBadRequest, "bad-form", "bad_form"}, true
	case errors.Is(err, errForeignForm):
		return failure{http.StatusForbidden, "bad-form", "foreign_form"}, true
	case errors.Is(err, errNotFound):
		return failure{http.StatusNotFound, "not-found", "not_found"}, true
	case errors.Is(err, account.ErrTooManyCodes):
		return failure{http.StatusTooManyRequests, "too-many-codes", "too_many_codes"}, true
	case errors.Is(err, account.ErrOutboxFull):
		return failure{http.StatusServiceUnavailable, "unavailable", "outbox_full"}, true
	}
	return failure{http.StatusInternalServerError, "fault", "fault"}, false
}

// fail answers an error with its page. Never with a redirect to the callback (specification 7.1).
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	event := telemetry.EventOf(r.Context())
	if errors.Is(err, fairqueue.ErrGone) { // a page left while it loaded
		event.Code = telemetry.CallerLeft
		panic(http.ErrAbortHandler)
	}
	answer, known := told(err)
	event.Code = answer.code
	if !known {
		event.Cause = err
	}
	w.Header().Set("Content-Security-Policy", policy)
	p.site.write(w, answer.status, answer.view, view{Base: baseOf(r), Code: answer.code})
}

// baseOf is what the paths of the request's sign-in begin with; empty where there is none. The page of its code is where
// a failed user can go on: it leads to the address where no code was sent.
func baseOf(r *http.Request) string {
	if request := chi.URLParam(r, "request"); request != "" {
		return "/authorize/" + request
	}
	if strings.HasPrefix(r.URL.Path, accountBase+"/") || r.URL.Path == accountBase {
		return accountBase
	}
	return ""
}
