package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// Event is what the one log event of a request says besides status and duration. The edge that answers the request
// fills it in; it is written when the answer is complete. It belongs to the goroutine that handles the request.
type Event struct {
	// RequestID identifies the request: what X-Request-ID and request_id tell the caller (specification 4, 7.1).
	RequestID uuid.UUID
	// Operation is the name of the operation in the contract, or the pattern of the page's route. Never the path.
	Operation string
	// ClientID is the partner that authenticated itself; uuid.Nil when none did.
	ClientID uuid.UUID
	// Code is the error code of the answer, empty for a success.
	Code string
	// Limiter is what the rate limiter decided, empty where it was not asked.
	Limiter LimiterDecision
	// Refresh is what became of a refresh token, empty where none was presented.
	Refresh RefreshOutcome
	// Cause is the inner error behind an opaque 500 or 503, which the caller never sees. It raises the event's level.
	Cause error

	// Status and Duration of the answer. They are set before the event is written.
	Status   int
	Duration time.Duration
}

// LimiterDecision is what the rate limiter said to a read (specification section 8).
type LimiterDecision string

// The decisions of the limiter.
const (
	LimiterAdmitted    LimiterDecision = "admitted"
	LimiterRate        LimiterDecision = "rate"        // refused: more requests than the policy allows
	LimiterConcurrency LimiterDecision = "concurrency" // refused: as many reads run as the policy allows
	LimiterFailed      LimiterDecision = "failed"      // could not decide: the request got 503
)

// RefreshOutcome is what became of a refresh token (specification 3.2).
type RefreshOutcome string

// The outcomes of a refresh.
const (
	RefreshRotated  RefreshOutcome = "rotated"
	RefreshReplayed RefreshOutcome = "replayed" // a used token: its connection was revoked
	RefreshLapsed   RefreshOutcome = "lapsed"   // the connection was not refreshed in time
	RefreshRefused  RefreshOutcome = "refused"  // not a token that works, for another reason
	RefreshFailed   RefreshOutcome = "failed"   // could not be decided: the request got 500
)

// CallerLeft is the code of an event whose caller had gone before there was an answer: a handler panics with
// [http.ErrAbortHandler] then. Its status is the one that nginx gives it, and nobody sees it.
const (
	CallerLeft       = "caller_left"
	statusCallerLeft = 499
)

type eventKey struct{}

// EventOf returns the event of the request that ctx belongs to. Outside of [Requests] it is an event that nobody
// writes, so that handlers can be tested alone.
func EventOf(ctx context.Context) *Event {
	if event, ok := ctx.Value(eventKey{}).(*Event); ok {
		return event
	}
	return &Event{RequestID: uuid.New()}
}

// Requests gives every request its [Event] and writes it to logger once the request is answered; then each of observe
// gets it, in the goroutine of the request: it must not wait. A panic of next ends in the log and breaks the connection
// off: nothing of it reaches the caller.
func Requests(logger *slog.Logger, next http.Handler, observe ...func(*Event)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil && r.Method == http.MethodGet {
			// The caller went before anything was done: streams that are opened and reset would cost the time of others. What
			// changes something is done all the same, as the replay of a refresh token (specification 3.2).
			panic(http.ErrAbortHandler)
		}
		start := time.Now()
		event := &Event{RequestID: uuid.New(), Operation: "none"}
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			failure := recover()
			if failure != nil && failure != any(http.ErrAbortHandler) {
				event.Cause = fmt.Errorf("panic: %v", failure)
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

// statusOf is what the caller saw. Where a handler wrote nothing net/http sends 200; a panic sends nothing.
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
	if handler, isOurs := logger.Handler().(traced); isOurs && handler.lines != nil && event.isPlain() {
		if handler.Enabled(r.Context(), slog.LevelInfo) {
			writeEvent(handler.lines, time.Now(), r, event)
		}
		return
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("request_id", event.RequestID.String()),
		slog.String("operation", event.Operation),
		slog.String("method", method(r)),
		slog.Int("status", event.Status),
		slog.Float64("duration_ms", event.milliseconds()),
	}
	if event.ClientID != uuid.Nil {
		attrs = append(attrs, slog.String("client_id", event.ClientID.String()))
	}
	if event.Code != "" {
		attrs = append(attrs, slog.String("code", event.Code))
	}
	if event.Limiter != "" {
		attrs = append(attrs, slog.String("limiter", string(event.Limiter)))
	}
	if event.Refresh != "" {
		attrs = append(attrs, slog.String("refresh", string(event.Refresh)))
	}
	if event.Cause != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("cause", event.Cause.Error()))
	}
	// The request's own context may have ended with the caller; the event is written all the same.
	logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

func (e *Event) milliseconds() float64 { return float64(e.Duration.Microseconds()) / 1000 }

// isPlain tells that all of the event is our own words: nothing to be redacted or escaped.
func (e *Event) isPlain() bool {
	return e.Cause == nil && isPlain(e.Operation) && isPlain(e.Code) && isPlain(string(e.Limiter)) && isPlain(string(e.Refresh))
}

func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

var eventLines = sync.Pool{New: func() any { return new([]byte) }}

// writeEvent writes a plain event as the logger would, which spends more on it than some requests spend on their work. A
// test compares the two.
func writeEvent(to *lineWriter, now time.Time, r *http.Request, event *Event) {
	line := eventLines.Get().(*[]byte) //nolint:errcheck // nothing else is in the pool
	defer eventLines.Put(line)
	b := append((*line)[:0], `{"time":"`...)
	b = now.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"request","request_id":"`...)
	b = appendUUID(b, event.RequestID)
	b = append(b, `","operation":"`...)
	b = append(b, event.Operation...)
	b = append(b, `","method":"`...)
	b = append(b, method(r)...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(event.Status), 10)
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendFloat(b, event.milliseconds(), 'f', -1, 64)
	if event.ClientID != uuid.Nil {
		b = append(b, `,"client_id":"`...)
		b = append(appendUUID(b, event.ClientID), '"')
	}
	for _, optional := range [...]struct{ key, value string }{
		{`,"code":"`, event.Code}, {`,"limiter":"`, string(event.Limiter)}, {`,"refresh":"`, string(event.Refresh)},
	} {
		if optional.value != "" {
			b = append(append(append(b, optional.key...), optional.value...), '"')
		}
	}
	if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
		id := span.TraceID()
		b = append(b, `,"trace_id":"`...)
		b = append(hex.AppendEncode(b, id[:]), '"')
	}
	*line = append(b, "}\n"...)
	to.writeSoon(*line)
}

func appendUUID(b []byte, id uuid.UUID) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// method keeps what a caller invents out of the log.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "other"
}
