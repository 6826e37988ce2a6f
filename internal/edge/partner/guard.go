package partner

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// call has what the guard learns about a request. It belongs to the goroutine that handles it.
type call struct {
	operation   *operation
	credentials oauth.Credentials  // of token, revoke and disconnect; the domain checks them
	access      oauth.Access       // of a read
	decision    ratelimit.Decision // of a read
}

type callKey struct{}

// callOf returns the call of a request, or nil if it did not reach the guard.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// setHeaders sets the headers of every response (specification 4; decisions, section 5).
func setHeaders(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Request-ID", telemetry.EventOf(r.Context()).RequestID.String())
}

// guard makes all checks that come before the operation itself. It sets the request's deadline. If the caller disconnects, only a
// read that still waits for the database is dropped.
func (e *edge) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := e.operations[contract.Route(r)]
		telemetry.EventOf(r.Context()).Operation = op.ID
		within, limit := work.Within, e.Limits.Act
		if op.scope != 0 {
			within, limit = work.WithinWhileWanted, e.Limits.Read
		}
		c := &call{operation: op}
		ctx, cancel := within(context.WithValue(r.Context(), callKey{}, c), work.Caller{Kind: work.Proofs}, limit)
		defer cancel()
		r = r.WithContext(ctx)
		defer e.release(ctx) // after a panic
		var err error
		switch {
		case op.Path[grantID] != nil && chi.URLParam(r, grantID) == "": // chi accepts an empty segment
			err = e.unknown(r)
		case op.scope != 0:
			err = e.guardRead(w, r, c)
		case op.basic:
			err = e.guardClient(w, r, c)
		}
		if err != nil {
			e.fail(w, r, err)
			return
		}
		if op.scope != 0 {
			ctx = work.WithCaller(ctx, work.Caller{Kind: work.Partners, Name: c.access.ClientID.String()})
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// guardClient makes the checks of token, revoke and disconnect, in the order of decisions, section 2. Unless the form is malformed, it
// leaves the authentication of the client to the domain, which does it in the statement of the act. It puts the fields into r.Form.
func (e *edge) guardClient(w http.ResponseWriter, r *http.Request, c *call) error {
	authorization := r.Header.Values("Authorization")
	err := oauth.ErrInvalidClient
	if len(authorization) == 0 {
		err = refusal.Because(err, "there is no Authorization header")
	} else if id, secret, ok := basicCredentials(authorization[0]); !ok {
		err = refusal.Because(err, "Authorization is not Basic with the base64 of client_id:client_secret, each form-encoded")
	} else if c.credentials, err = oauth.NewCredentials(id, secret); err == nil {
		telemetry.EventOf(r.Context()).ClaimedID = c.credentials.ClientID
	}
	var ill, broken error
	switch {
	case contract.HasQuery(r):
		broken = malformed("there is a query string, and the operation takes none")
	case len(authorization) > 1:
		broken = malformed("there is more than one Authorization header")
	default:
		ill, broken = c.operation.readBody(w, r)
	}
	if broken != nil { // it comes before the authentication (decisions, section 2)
		if err == nil && len(authorization) == 1 {
			// For the client's list of errors and its usage. The response does not depend on it, and does not wait for a database that is
			// unavailable.
			ctx, cancel := context.WithTimeout(r.Context(), e.Limits.Recognize)
			defer cancel()
			authenticated(ctx, c, e.OAuth.AuthenticateClient(ctx, c.credentials))
		}
		return broken
	}
	if err != nil || ill == nil {
		return err
	}
	err = e.OAuth.AuthenticateClient(r.Context(), c.credentials)
	authenticated(r.Context(), c, err)
	return cmp.Or(err, ill)
}

// authenticated records the client if err shows that its credentials are right.
func authenticated(ctx context.Context, c *call, err error) {
	if err == nil || errors.Is(err, oauth.ErrInvalidGrant) {
		telemetry.EventOf(ctx).ClientID = c.credentials.ClientID
	}
}

// readBody reads a request of token, revoke or disconnect. Any caller may get err. Only an authenticated client may get ill, an error of
// the fields or the path.
func (op *operation) readBody(w http.ResponseWriter, r *http.Request) (ill, err error) {
	if op.Body == nil {
		if contract.HasBody(w, r) {
			return nil, malformed("there is a body, and the operation takes none")
		}
		if !op.CheckPath(r) {
			return malformed("grant_id is no UUID in lower case"), nil
		}
		return nil, nil
	}
	fields, err := op.readForm(r)
	if err != nil {
		return nil, err
	}
	r.Form = make(url.Values, len(fields)) // the generated binding reads it
	for name, value := range fields {
		r.Form[name] = []string{value.(string)}
	}
	r.PostForm = r.Form
	return op.checkFields(fields), nil
}

// guardRead makes the checks of a read up to its dates, in the order of decisions, section 2.
func (e *edge) guardRead(w http.ResponseWriter, r *http.Request, c *call) (err error) {
	refuse := func(reason string) error { return refusal.Because(oauth.ErrInvalidAccessToken, reason) }
	given := r.Header.Values("Authorization")
	switch {
	case len(given) == 0:
		return refuse("there is no Authorization header")
	case len(given) > 1:
		return refuse("there is more than one Authorization header")
	}
	token, ok := contract.Authorization(given[0], "Bearer") // RFC 6750, section 2.1
	if !ok {
		return refuse("Authorization is not Bearer with an access token")
	}
	c.access, err = e.OAuth.Authenticate(r.Context(), token)
	event := telemetry.EventOf(r.Context())
	event.ClientID, event.GrantID = c.access.ClientID, c.access.GrantID
	if err != nil {
		return err
	}
	if !c.access.Scopes.Contains(c.operation.scope) {
		return refusal.Because(errInsufficientScope, "the connection does not have the scope "+c.operation.scope.String())
	}
	if chi.URLParam(r, grantID) != c.access.GrantID.String() {
		return errWrongGrant
	}
	if err := c.operation.checkRead(r, e.BaseURL); err != nil {
		return err
	}
	if contract.HasBody(w, r) { // the last check of the shape, because it may wait
		return malformed("there is a body, and a read has only a query string")
	}
	return e.admit(w, r, c)
}

// limits has the reasons of refusals by the rate policy.
var limits = map[ratelimit.Reason]string{
	ratelimit.ReasonRate:        "more requests than the rate policy allows",
	ratelimit.ReasonConcurrency: "more concurrent reads than the rate policy allows",
}

// admit applies the rate policy. From here on the request is counted, and its response shows the budget.
func (e *edge) admit(w http.ResponseWriter, r *http.Request, c *call) (err error) {
	event := telemetry.EventOf(r.Context())
	began := time.Now()
	c.decision, err = e.Limiter.Admit(work.Unmeasured(r.Context()), c.access.ClientID, ratelimit.Policy{
		RequestsPerMinute: int(c.access.RequestsPerMinute),
		Burst:             int(c.access.Burst),
		ConcurrentReads:   int(c.access.ConcurrentReads),
	}, c.access.Now)
	event.Limited = time.Since(began)
	if err != nil {
		event.Limiter = telemetry.LimiterFailed
		return err
	}
	event.Limiter = telemetry.LimiterAdmitted
	budgetHeaders(w.Header(), &c.decision)
	if !c.decision.Allowed {
		event.Limiter = telemetry.LimiterDecision(c.decision.Reason)
		return refusal.Because(errRateLimited, limits[c.decision.Reason])
	}
	return nil
}

// budgetHeaders sets the headers of the response to a counted request (specification 8).
func budgetHeaders(h http.Header, decision *ratelimit.Decision) {
	h.Set("RateLimit-Limit", strconv.Itoa(decision.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(decision.Remaining))
	h.Set("RateLimit-Reset", strconv.Itoa(decision.ResetSeconds))
	if !decision.Allowed {
		h.Set("Retry-After", strconv.Itoa(decision.RetryAfterSeconds))
	}
}

// release releases the lease of a read, if there is one.
func (e *edge) release(ctx context.Context) {
	if c := callOf(ctx); c != nil {
		if err := c.decision.Release(ctx); err != nil {
			e.Logger.WarnContext(ctx, "the lease of a read was not released in time, and may end by itself", "cause", err)
		}
	}
}

// releasing releases the lease after the data is read and before the response is written. A read whose rows were read is recorded.
func (e *edge) releasing(next partnerapi.StrictHandlerFunc, _ string) partnerapi.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		response, err := next(ctx, w, r, request)
		e.release(ctx)
		if c := callOf(ctx); err == nil && c.operation.scope != 0 {
			e.OAuth.RecordRead(&c.access, c.operation.scope)
		}
		return response, err
	}
}

// bindingFailed handles an error of the generated binding. Only bad dates get there.
func (e *edge) bindingFailed(w http.ResponseWriter, r *http.Request, err error) {
	reason := "from or to is no date YYYY-MM-DD"
	if missing := (*partnerapi.RequiredParamError)(nil); errors.As(err, &missing) {
		reason = missing.ParamName + " is missing, a date YYYY-MM-DD"
	}
	if invalid := (*partnerapi.InvalidParamFormatError)(nil); errors.As(err, &invalid) {
		reason = invalid.ParamName + " is no date YYYY-MM-DD"
	}
	e.fail(w, r, refusal.Because(activity.ErrDateRange, reason))
}
