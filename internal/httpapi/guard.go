package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
	"connect-svc/internal/client"
	"connect-svc/internal/oauth"
	"connect-svc/internal/ratelimit"
	"connect-svc/internal/telemetry"
)

// call is what the guard has found out about a request. It belongs to the goroutine that handles it.
type call struct {
	operation *operation
	client    uuid.UUID          // of token, revoke and disconnect
	presented *presented         // of token and revoke: who the client says it is, to be found out with the act
	access    oauth.Access       // of a read
	decision  ratelimit.Decision // of a read
	requestID uuid.UUID          // of a read
}

type callKey struct{}

// callOf returns the call of a request that has passed the guard, or nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Nobody changes these: what is set later replaces them.
var (
	noStore    = []string{noCaching.CacheControl}
	noCache    = []string{noCaching.Pragma}
	noReferrer = []string{noCaching.ReferrerPolicy}
)

// headers sets what every answer has (specification 4), and the request id of reads.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Cache-Control"], h["Pragma"], h["Referrer-Policy"] = noStore, noCache, noReferrer
		if isRead(r) {
			w.Header().Set(requestIDHeader, telemetry.EventOf(r.Context()).RequestID.String())
		}
		next.ServeHTTP(w, r)
	})
}

// requestID is the one that headers set.
func requestID(w http.ResponseWriter) uuid.UUID {
	return uuid.MustParse(w.Header().Get(requestIDHeader))
}

// guard lets a request through to its operation when everything before the operation itself is right.
func (e *edge) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := e.operations[r.Method+" "+chi.RouteContext(r.Context()).RoutePattern()]
		telemetry.EventOf(r.Context()).Operation = op.id
		c := &call{operation: op}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		var err error
		switch {
		case op.path[grantID] != nil && chi.URLParam(r, grantID) == "": // chi takes an empty segment for one
			err = errNoOperation
		case op.scope != 0:
			defer e.release(r.Context())
			err = e.guardRead(w, r, c)
		case op.basic:
			err = e.guardClient(r, c)
		}
		if err != nil {
			e.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guardClient is the order of checks of token, revoke and disconnect (decisions, section 2). Where it lets a request
// through, the fields of its form stand in r.Form, and the query string, of which there is none, does not.
func (e *edge) guardClient(r *http.Request, c *call) error {
	op, authorization := c.operation, r.Header.Values("Authorization")
	if hasQuery(r) || len(authorization) > 1 {
		return errMalformed
	}
	var fields map[string]any
	if op.form == nil {
		if hasBody(r) {
			return errMalformed
		}
	} else {
		var err error
		if fields, err = op.readForm(r); err != nil {
			return err
		}
	}
	if op.form != nil && op.checkFields(fields) == nil {
		// Nothing is left to be refused before the act, which can find out itself who the client is.
		if c.presented = present(authorization); c.presented == nil {
			return client.ErrAuthentication
		}
		setForm(r, fields)
		return nil
	}
	if err := e.authenticate(r.Context(), present(authorization), c); err != nil {
		return err
	}
	for name, described := range op.path {
		if described.VisitJSON(chi.URLParam(r, name)) != nil {
			return errMalformed
		}
	}
	if op.form == nil {
		return nil
	}
	return op.checkFields(fields)
}

// setForm is where the generated binding finds the fields.
func setForm(r *http.Request, fields map[string]any) {
	r.Form = make(url.Values, len(fields))
	for name, value := range fields {
		r.Form[name] = []string{value.(string)}
	}
	r.PostForm = r.Form
}

// presented are the credentials of a client (specification 5.1), not checked yet.
type presented struct {
	id, secret string
}

// present takes the credentials from the headers. It is nil where there are none, which is as good as wrong ones.
func present(authorization []string) *presented {
	if len(authorization) == 0 {
		return nil
	}
	id, secret, ok := basicCredentials(authorization[0])
	if !ok {
		return nil
	}
	return &presented{id, secret}
}

// authenticate finds the client.
func (e *edge) authenticate(ctx context.Context, p *presented, c *call) error {
	if p == nil {
		return client.ErrAuthentication
	}
	found, err := e.Clients.Authenticate(ctx, p.id, p.secret)
	if err != nil {
		return err
	}
	c.authenticated(ctx, found.ID)
	return nil
}

// authenticated notes who the client is.
func (c *call) authenticated(ctx context.Context, id uuid.UUID) {
	c.client = id
	telemetry.EventOf(ctx).ClientID = id
}

// guardRead is the order of checks of the reads up to the dates (decisions, section 2).
func (e *edge) guardRead(w http.ResponseWriter, r *http.Request, c *call) error {
	c.requestID = requestID(w)
	authorization := r.Header.Values("Authorization")
	if len(authorization) != 1 {
		return oauth.ErrInvalidAccessToken
	}
	token, ok := bearerToken(authorization[0])
	if !ok {
		return oauth.ErrInvalidAccessToken
	}
	malformed := c.operation.checkRead(r, e.BaseURL)
	decide, err := e.identify(r, token, malformed == nil, c)
	if err != nil {
		return err
	}
	telemetry.EventOf(r.Context()).ClientID = c.access.ClientID
	if !c.access.Scopes.Contains(c.operation.scope) {
		return errInsufficientScope
	}
	if chi.URLParam(r, grantID) != c.access.GrantID.String() {
		return errWrongGrant
	}
	if malformed != nil {
		return malformed
	}
	return e.admit(w, r, c, decide)
}

// decider gives the limiter's decision about a read.
type decider func(context.Context) (ratelimit.Decision, error)

// identify finds whose access token it is. Where nothing but the token, the scope and the grant can be wrong, and the
// limiter is in the same database, the read is admitted by the way.
func (e *edge) identify(r *http.Request, token string, wellFormed bool, c *call) (decide decider, err error) {
	policy := func() ratelimit.Policy {
		return ratelimit.Policy{
			RequestsPerMinute: c.access.RequestsPerMinute,
			Burst:             c.access.Burst,
			ConcurrentReads:   c.access.ConcurrentReads,
		}
	}
	decide = func(ctx context.Context) (ratelimit.Decision, error) {
		return e.Limiter.Admit(ctx, c.access.ClientID, policy())
	}
	inline, isInline := e.Limiter.(inlineLimiter)
	grant, err := uuid.Parse(chi.URLParam(r, grantID))
	if !isInline || !wellFormed || err != nil || grant.String() != chi.URLParam(r, grantID) {
		c.access, err = e.OAuth.Authenticate(r.Context(), token)
		return decide, err
	}
	admission := oauth.Admission{Scopes: c.operation.scope, GrantID: grant, Lease: uuid.New()}
	ctx, cancel := context.WithTimeout(r.Context(), ratelimit.TimeLimit)
	defer cancel()
	var admitted *oauth.Admitted
	if c.access, admitted, err = e.OAuth.AuthenticateAndAdmit(ctx, token, admission); err != nil {
		if !errors.Is(err, oauth.ErrInvalidAccessToken) {
			telemetry.EventOf(r.Context()).Limiter = telemetry.LimiterFailed
		}
		return nil, err
	}
	if admitted != nil {
		decide = func(context.Context) (ratelimit.Decision, error) {
			return inline.Admitted(c.access.ClientID, admission.Lease, policy(), admitted.Remaining, admitted.ResetSeconds), nil
		}
	}
	return decide, nil
}

// admit holds the client to its rate policy. From here on the request is counted, and its answer says so.
func (e *edge) admit(w http.ResponseWriter, r *http.Request, c *call, decide decider) error {
	decision, err := decide(r.Context())
	event := telemetry.EventOf(r.Context())
	if err != nil {
		event.Limiter = telemetry.LimiterFailed
		return err
	}
	event.Limiter = telemetry.LimiterAdmitted
	c.decision = decision
	w.Header().Set("RateLimit-Limit", strconv.Itoa(decision.Limit))
	w.Header().Set("RateLimit-Remaining", strconv.Itoa(decision.Remaining))
	w.Header().Set("RateLimit-Reset", strconv.Itoa(decision.ResetSeconds))
	if !decision.Allowed {
		event.Limiter = telemetry.LimiterDecision(decision.Reason)
		w.Header().Set("Retry-After", strconv.Itoa(decision.RetryAfterSeconds))
		return errRateLimited
	}
	return nil
}

// release ends the lease of a read, if it holds one.
func (e *edge) release(ctx context.Context) {
	if c := callOf(ctx); c != nil {
		if err := c.decision.Release(ctx); err != nil {
			e.Logger.WarnContext(ctx, "the lease of a read was not released and ends by itself", "cause", err)
		}
	}
}

// releasing ends the lease when the data is read and before the answer is written.
func (e *edge) releasing(next partnerapi.StrictHandlerFunc, _ string) partnerapi.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		response, err := next(ctx, w, r, request)
		e.release(ctx)
		return response, err
	}
}

// bindingFailed tells an error of the generated binding. Everything but the dates was checked before.
func (e *edge) bindingFailed(w http.ResponseWriter, r *http.Request, err error) {
	var missing *partnerapi.RequiredParamError
	var invalid *partnerapi.InvalidParamFormatError
	name := ""
	switch {
	case errors.As(err, &missing):
		name = missing.ParamName
	case errors.As(err, &invalid):
		name = invalid.ParamName
	}
	if callOf(r.Context()).operation.query[name].date {
		err = activity.ErrDateRange
	} else {
		err = errMalformed
	}
	e.fail(w, r, err)
}
