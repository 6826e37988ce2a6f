package pages

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
)

// failure is the response to an error.
type failure struct {
	status int
	view   string // the template
	code   string // for the log; the page shows it in small print if it is one of specification 7.2
}

// failureOf is the table of errors and their pages. An error that is not in it is a fault of the service.
func failureOf(err error) failure {
	var refused *oauth.AuthorizeError
	switch {
	case errors.As(err, &refused):
		return failure{http.StatusBadRequest, "refused", string(refused.Cause)}
	case errors.Is(err, oauth.ErrRequestEnded):
		return failure{http.StatusBadRequest, "ended", string(oauth.InvalidRequest)}
	case errors.Is(err, site.ErrBadForm):
		return failure{http.StatusBadRequest, "bad-form", "bad_form"}
	case errors.Is(err, site.ErrForeignForm):
		return failure{http.StatusForbidden, "bad-form", "foreign_form"}
	case errors.Is(err, site.ErrNotFound), errors.Is(err, refusal.ErrClientNotFound):
		return failure{http.StatusNotFound, "not-found", "not_found"}
	case errors.Is(err, account.ErrNoReceipt):
		return failure{http.StatusNotFound, "receipt", "no_receipt"}
	case errors.Is(err, account.ErrTooManyCodes):
		return failure{http.StatusTooManyRequests, "too-many-codes", "too_many_codes"}
	}
	return failure{http.StatusInternalServerError, "fault", "fault"}
}

// fail responds with the error's page, never with a redirect to the callback (specification 7.1).
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	event := telemetry.EventOf(r.Context())
	failure := failureOf(err)
	event.Code = failure.code
	if refused := (*oauth.AuthorizeError)(nil); errors.As(err, &refused) {
		event.Reason, event.ClaimedID = refused.Reason, refused.ClientID // anyone with the link can send it
	}
	if failure.status == http.StatusInternalServerError {
		event.Cause = err
	}
	w.Header().Set("Content-Security-Policy", site.Policy)
	w.Header().Set("X-Request-ID", event.RequestID.String())
	v := view{Base: baseOf(r), Code: failure.code}
	if failure.view == "ended" {
		v.Problem, v.Partner, v.Denied = p.ending(r)
		if errors.Is(err, oauth.ErrDayOver) && v.Problem == string(oauth.EndedByTime) {
			v.Problem = "midnight"
		}
	}
	if limited := new(account.TooManyCodesError); errors.As(err, &limited) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(limited.Wait.Seconds()))))
		v.Wait, v.Restart = limited.Wait, v.Base != accountBase
	}
	p.site.Write(w, r, failure.status, failure.view, v)
}

// ending returns why a request has ended, as a name that the template knows, the partner, as far as this browser may know them, and whether
// the user has denied the request. After a failure the cause is unknown.
func (p *pages) ending(r *http.Request) (cause string, of partner, isDenied bool) {
	kept, err := keeps(r)
	if err != nil {
		return "unknown", partner{}, false
	}
	ending, err := p.OAuth.Ending(r.Context(), kept.asked, kept.browser)
	if err != nil {
		return "unknown", partner{}, false
	}
	if kept.outcome != "" {
		ending.Cause, ending.Denied = oauth.EndedByDecision, kept.outcome == denied
	}
	return string(ending.Cause), partner{Partner: ending.Partner}, ending.Denied
}

// baseOf returns the prefix of the paths of the request's sign-in, or an empty string. Error pages link to the page for its code, which
// redirects to the form for the address if no code was sent.
func baseOf(r *http.Request) string {
	if request := chi.URLParam(r, "request"); request != "" {
		return "/authorize/" + request
	}
	if strings.HasPrefix(r.URL.Path+"/", accountBase+"/") {
		return accountBase
	}
	return ""
}
