package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"connect-svc/internal/panics"
)

// Event is the one log event of a request. The edge that handles the request fills it in; it is written when the response
// is complete. It belongs to the goroutine that handles the request.
type Event struct {
	// RequestID identifies the request, also to the caller: X-Request-ID and request_id (specification 4, 7.1).
	RequestID uuid.UUID
	// Operation is the name of the operation in the contract, or the pattern of the page's route. Never the path.
	Operation string
	// ClientID is the authenticated client, or the one that was given the access token, be it expired or revoked; uuid.Nil if
	// there is none.
	ClientID uuid.UUID
	// ClaimedID is the client that a request named without proving it: its authentication failed, or it came from a browser.
	// Everybody can name every client.
	ClaimedID uuid.UUID
	// Operator is the name of whose token a request to the operator API or the console showed, empty if there is none.
	Operator string
	// Code is the error code of the response, empty for a success.
	Code string
	// Reason is why the request was refused (package refusal). The caller never sees it.
	Reason string
	// Limiter is the decision of the rate limiter, empty if it was not asked.
	Limiter LimiterDecision
	// Refresh is the outcome of a refresh, empty if no refresh token was presented.
	Refresh RefreshOutcome
	// Probe is set for requests of tools that ask again and again. Where they go well they are logged at DEBUG.
	Probe bool
	// Network is the caller's, as far as it is known. It is in no log.
	Network netip.Prefix
	// Cause is the error behind an opaque 500 or 503. The caller never sees it. It raises the level to ERROR.
	Cause error

	// Status and Duration of the response. They are set before the event is written.
	Status   int
	Duration time.Duration
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
	RefreshReplayed RefreshOutcome = "replayed" // a used token: its connection was revoked
	RefreshLapsed   RefreshOutcome = "lapsed"   // the connection was not refreshed in time
	RefreshRefused  RefreshOutcome = "refused"  // not a valid token, for another reason
	RefreshFailed   RefreshOutcome = "failed"   // unknown: the request got 500
)

// CallerLeft is the code of an event whose caller disconnected before the response: its handler panics with
// [http.ErrAbortHandler]. Nobody sees its status, which is nginx's.
const (
	CallerLeft       = "caller_left"
	statusCallerLeft = 499
)

type eventKey struct{}

// EventOf returns the event of the request that ctx belongs to. Outside of [Requests] it returns an event that is never
// written, so that handlers can be tested alone.
func EventOf(ctx context.Context) *Event {
	if event, ok := ctx.Value(eventKey{}).(*Event); ok {
		return event
	}
	return &Event{RequestID: uuid.New()}
}

// Requests gives every request its [Event], writes it to logger after the response, and then passes it to each of observe,
// which run in the goroutine of the request and must not block. A panic of next is logged and closes the connection; the
// caller sees nothing of it.
func Requests(logger *slog.Logger, next http.Handler, observe ...func(*Event)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil && r.Method == http.MethodGet {
			// The caller left before the work began: streams that are opened and reset must not cost other callers time.
			// Requests that change something are carried out all the same, such as the replay of a refresh token
			// (specification 3.2).
			panic(http.ErrAbortHandler)
		}
		start := time.Now()
		event := &Event{RequestID: uuid.New(), Operation: "none"}
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			failure := recover()
			if failure != nil && failure != any(http.ErrAbortHandler) {
				event.Cause = panics.New(failure)
			}
			event.Duration = time.Since(start)
			event.Status = statusOf(ww.Status(), event)
			write(r, logger, event)
			describe(trace.SpanFromContext(r.Context()), r, event)
			for _, observer := range observe {
				observer(event)
			}
			if failure != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(ww, r.WithContext(context.WithValue(r.Context(), eventKey{}, event)))
	})
}

// statusOf is the status that the caller saw. If a handler wrote nothing, net/http sends 200; a panic sends nothing.
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

func write(r *http.Request, logger *slog.Logger, event *Event) {
	level := slog.LevelInfo
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
	for _, optional := range []slog.Attr{
		slog.String("operator", event.Operator), slog.String("code", event.Code), slog.String("reason", event.Reason),
		slog.String("limiter", string(event.Limiter)), slog.String("refresh", string(event.Refresh)),
	} {
		if optional.Value.String() != "" {
			attrs = append(attrs, optional)
		}
	}
	if event.Cause != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("cause", event.Cause.Error()))
	}
	// The request's own context may have ended with the caller; the event is written all the same.
	logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// method keeps methods that a caller has made up out of the log.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "other"
}
