package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
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
	// Cause is the inner error behind an opaque 500 or 503, which the caller never sees. It raises the event's level.
	Cause error
}

type eventKey struct{}

// EventOf returns the event of the request that ctx belongs to. Outside of [Requests] it is an event that nobody
// writes, so that handlers can be tested alone.
func EventOf(ctx context.Context) *Event {
	if event, ok := ctx.Value(eventKey{}).(*Event); ok {
		return event
	}
	return &Event{RequestID: uuid.New()}
}

// Requests gives every request its [Event] and writes it to logger once the request is answered. A panic of next ends
// in the log and breaks the connection off: nothing of it reaches the caller.
func Requests(logger *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		event := &Event{RequestID: uuid.New(), Operation: "none"}
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			failure := recover()
			if failure != nil && failure != any(http.ErrAbortHandler) {
				event.Cause = fmt.Errorf("panic: %v", failure)
			}
			write(r, logger, event, ww.Status(), time.Since(start))
			if failure != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(ww, r.WithContext(context.WithValue(r.Context(), eventKey{}, event)))
	})
}

func write(r *http.Request, logger *slog.Logger, event *Event, status int, took time.Duration) {
	if status == 0 { // net/http sends 200 where a handler wrote nothing; a panic sends nothing
		status = http.StatusOK
		if event.Cause != nil {
			status = http.StatusInternalServerError
		}
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("request_id", event.RequestID.String()),
		slog.String("operation", event.Operation),
		slog.String("method", method(r)),
		slog.Int("status", status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if event.ClientID != uuid.Nil {
		attrs = append(attrs, slog.String("client_id", event.ClientID.String()))
	}
	if event.Code != "" {
		attrs = append(attrs, slog.String("code", event.Code))
	}
	if event.Cause != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("cause", event.Cause.Error()))
	}
	// The request's own context may have ended with the caller; the event is written all the same.
	logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
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
