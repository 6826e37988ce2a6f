package sandbox

import (
	"context"
	"log/slog"
	"net/http"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/foundation/telemetry"
)

// observe lists a finished request, and writes the reason of a refusal to standard error.
func (s *sandbox) observe(event *telemetry.Event) {
	one := sandboxapi.LoggedRequest{
		At: instant(s.clock.Now()), RequestId: event.RequestID, Operation: event.Operation, Status: event.Status,
	}
	if event.Code != "" {
		one.Code = &event.Code
	}
	if reason := s.reasonOf(event); event.Status >= http.StatusBadRequest && reason != "" {
		one.Reason = &reason
		if event.Cause == nil { // otherwise the event was logged as an error
			s.config.Logger.Warn("refused", slog.String("operation", event.Operation), slog.Int("status", event.Status),
				slog.String("code", event.Code), slog.String("reason", reason), slog.String("request_id", event.RequestID.String()))
		}
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	s.asked.add(one)
}

// ListRequests lists the requests, newest first.
func (d driver) ListRequests(
	ctx context.Context, _ sandboxapi.ListRequestsRequestObject,
) (sandboxapi.ListRequestsResponseObject, error) {
	return sandboxapi.ListRequests200JSONResponse{Data: d.asked.newestFirst()}, nil
}
