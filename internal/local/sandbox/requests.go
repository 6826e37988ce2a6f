package sandbox

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/telemetry"
)

const keptRequests = 1000

// requests lists the requests to the public listener.
type requests struct {
	mu   sync.Mutex
	list []sandboxapi.LoggedRequest // oldest first
}

// observe lists a finished request, and writes the reason of a refusal to standard error.
func (s *sandbox) observe(event *telemetry.Event) {
	one := sandboxapi.LoggedRequest{
		At: instant(s.clock.Now()), RequestId: event.RequestID, Operation: event.Operation, Status: event.Status,
	}
	if event.Code != "" {
		one.Code = &event.Code
	}
	if reason := event.Reason; event.Status >= http.StatusBadRequest && reason != "" {
		if event.Code == "invalid_client" && event.ClaimedID != uuid.Nil && event.ClaimedID != s.client.ID {
			reason = "client_id is not the one of the sandbox's client"
		}
		one.Reason = &reason
		if event.Cause == nil { // otherwise the event was logged as an error
			s.warn(event, reason)
		}
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	s.asked.list = append(s.asked.list[max(0, len(s.asked.list)-keptRequests+1):], one)
}

func (s *sandbox) warn(event *telemetry.Event, reason string) {
	s.config.Logger.Warn("refused", slog.String("operation", event.Operation), slog.Int("status", event.Status),
		slog.String("code", event.Code), slog.String("reason", reason), slog.String("request_id", event.RequestID.String()))
}

// ListRequests lists the requests, newest first.
func (d driver) ListRequests(
	ctx context.Context, _ sandboxapi.ListRequestsRequestObject,
) (sandboxapi.ListRequestsResponseObject, error) {
	d.asked.mu.Lock()
	list := append([]sandboxapi.LoggedRequest{}, d.asked.list...) // never null in JSON
	d.asked.mu.Unlock()
	slices.Reverse(list)
	return sandboxapi.ListRequests200JSONResponse{Data: list}, nil
}
