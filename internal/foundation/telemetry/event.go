package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"connect-svc/internal/foundation/work"
)

// Event is the one log event of a request. The edge that handles the request fills it in, and [Requests] writes it after the response.
// It belongs to the goroutine that handles the request.
type Event struct {
	RequestID uuid.UUID // which the caller sees as X-Request-ID and request_id (specification 4, 7.1)
	Operation string    // the operation in the contract, or the pattern of the page's route; never the path
	// ClientID is the authenticated client, or the client to which the access token was issued, even if the token has expired or was
	// revoked. It is uuid.Nil if there is none.
	ClientID uuid.UUID
	// ClaimedID is the client that a request named without proof: its authentication failed, or it came from a browser. Anybody can
	// name any client.
	ClaimedID uuid.UUID
	// GrantID is of the connection whose credential a request had. The log has its hash (package lookup finds the connection by it).
	// uuid.Nil: of none, or it is not known.
	GrantID  uuid.UUID
	Rows     int             // of a batch of users or activity; 0: it has none
	Operator string          // the operator token that authenticated the request; empty: none
	Code     string          // the error code of the response; empty: a success
	Reason   string          // why the request was refused (package refusal); callers see it in the sandbox alone
	Limiter  LimiterDecision // empty: the request did not reach the limiter
	Refresh  RefreshOutcome  // empty: no refresh token was presented
	// CodeSent and CodeTried tell what happened to a sign-in code, and CodeFor for which client: uuid.Nil for the account pages.
	CodeSent, CodeTried bool
	CodeFor             uuid.UUID
	Probe               bool         // a repeated request of a monitoring tool, which is logged at DEBUG unless it fails
	Network             netip.Prefix // the caller's, if known; never logged
	// Address and Path of a request that the private listener refused for want of a token; empty: another one. Others' are never logged.
	Address, Path string
	Cause         error // the error behind an opaque 500 or 503, which the caller never sees; see outages for the level

	// Status and Duration of the response. [Requests] sets them.
	Status   int
	Duration time.Duration
	Database time.Duration // of it, by statements that ran or waited; the sum, if several ran at once
	Limited  time.Duration // of it, for the limiter's decision, with the limiter's own statements
}

// LimiterDecision is the rate limiter's decision on a read (specification section 8).
type LimiterDecision string

// The decisions of the limiter.
const (
	LimiterAdmitted    LimiterDecision = "admitted"
	LimiterRate        LimiterDecision = "rate"        // refused: more requests than the policy allows
	LimiterConcurrency LimiterDecision = "concurrency" // refused: more concurrent reads than the policy allows
	LimiterFailed      LimiterDecision = "failed"      // no decision: the request got 503
)

// RefreshOutcome is the outcome of a refresh (specification 3.2).
type RefreshOutcome string

// The outcomes of a refresh.
const (
	RefreshRotated  RefreshOutcome = "rotated"
	RefreshReplayed RefreshOutcome = "replayed" // a used token, which revoked its connection
	RefreshLapsed   RefreshOutcome = "lapsed"   // the connection was not refreshed in time
	RefreshRefused  RefreshOutcome = "refused"  // an invalid token, for another reason
	RefreshFailed   RefreshOutcome = "failed"   // unknown: the request got 500
)

// CallerLeft is the code of a request whose caller disconnected before the response. Its handler panics with
// [http.ErrAbortHandler]. The log has the status that nginx uses.
const (
	CallerLeft       = "caller_left"
	statusCallerLeft = 499
)

type eventKey struct{}

// EventOf returns the event of the request that ctx belongs to. Outside of [Requests] it returns an event that is never written, so
// that tests can call handlers directly.
func EventOf(ctx context.Context) *Event {
	if event, ok := ctx.Value(eventKey{}).(*Event); ok {
		return event
	}
	return &Event{RequestID: uuid.New()}
}

// Requests gives every request its [Event], logs it after the response, and then passes it to the observers, which run in the
// goroutine of the request and must not block. It logs a panic of next and closes the connection; the caller does not see the panic.
func Requests(logger *slog.Logger, next http.Handler, observe ...func(*Event)) http.Handler {
	failing := newOutages(logger)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			// The caller left before the work began. Streams that are opened and reset must not cost other callers time. Requests that
			// change something, such as the replay of a refresh token (specification 3.2), still run.
			panic(http.ErrAbortHandler)
		}
		start := time.Now()
		ctx, used := work.Measured(r.Context())
		event := &Event{RequestID: uuid.New(), Operation: "none"}
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			failure := recover()
			if failure != nil && failure != any(http.ErrAbortHandler) {
				event.Cause = work.NewPanic(failure)
			}
			event.Duration, event.Database = time.Since(start), used()
			event.Status = statusOf(ww.Status(), event)
			write(r, failing, event)
			describe(trace.SpanFromContext(r.Context()), r, event)
			for _, observer := range observe {
				observer(event)
			}
			if failure != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(ww, r.WithContext(context.WithValue(ctx, eventKey{}, event)))
	})
}

// statusOf returns the status that the caller saw. If a handler wrote nothing, net/http sends 200; a panic sends nothing.
func statusOf(written int, event *Event) int {
	switch {
	case written != 0:
		return written
	case event.Code == CallerLeft:
		return statusCallerLeft
	case event.Cause != nil:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

func write(r *http.Request, failing *outages, event *Event) {
	// The caller may have ended the request's context. The event is still logged.
	ctx := context.WithoutCancel(r.Context())
	level := failing.level(ctx, event)
	if event.Probe && event.Status < http.StatusBadRequest && event.Cause == nil {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("request_id", event.RequestID.String()),
		slog.String("operation", event.Operation),
		slog.String("method", method(r)),
		slog.Int("status", event.Status),
		slog.Float64("duration_ms", float64(event.Duration.Microseconds())/1000),
	}
	if event.ClientID != uuid.Nil {
		attrs = append(attrs, slog.String("client_id", event.ClientID.String()))
	}
	if event.GrantID != uuid.Nil {
		hash := sha256.Sum256(event.GrantID[:])
		attrs = append(attrs, slog.String("grant", hex.EncodeToString(hash[:8])))
	}
	if event.Rows > 0 {
		attrs = append(attrs, slog.Int("rows", event.Rows))
	}
	for _, optional := range []slog.Attr{
		slog.String("operator", event.Operator), slog.String("code", event.Code), slog.String("reason", event.Reason),
		slog.String("limiter", string(event.Limiter)), slog.String("refresh", string(event.Refresh)),
		slog.String("address", event.Address), slog.String("path", event.Path),
	} {
		if optional.Value.String() != "" {
			attrs = append(attrs, optional)
		}
	}
	if event.Cause != nil {
		attrs = append(attrs, slog.String("cause", event.Cause.Error()))
	}
	failing.logger.LogAttrs(ctx, level, "request", attrs...)
}

// method keeps invented methods out of the log.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "other"
}
