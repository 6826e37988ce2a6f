package sandbox

import (
	"net/http"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/telemetry"
)

// explained is the response to a request. A refusal has two more headers than that of the service, which tells nobody the reason: its
// errors have a fixed shape, so the reason does not fit into them.
type explained struct {
	http.ResponseWriter
	request *http.Request
	sandbox *sandbox
}

func (e explained) WriteHeader(status int) {
	event := telemetry.EventOf(e.request.Context())
	if reason := e.sandbox.reasonOf(event); status >= http.StatusBadRequest && reason != "" {
		e.Header().Set("X-Connect-Reason", reason)
		e.Header().Set("Link", "<"+e.sandbox.baseURL+"/developers/error-codes.html#"+event.Code+`>; rel="help"`)
	}
	e.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (e explained) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (s *sandbox) explaining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(explained{w, r, s}, r) })
}

// reasonOf returns why a request was refused: also that it is for the client of another sandbox.
func (s *sandbox) reasonOf(event *telemetry.Event) string {
	if _, known := s.clients.get(event.ClaimedID); event.Code == "invalid_client" && event.ClaimedID != uuid.Nil && !known {
		return "client_id is not one of the sandbox's clients"
	}
	return event.Reason
}
