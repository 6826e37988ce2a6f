//go:build timed

package webhook

import (
	"net/http"
	"testing"
	"time"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// An attempt at a receiver that never answers is over within 5 s (decisions, section 5), and a little for breaking it off.
func TestTimedAttempt(t *testing.T) {
	w := newWorld(t)
	w.limit(work.DefaultLimits)
	id := w.revoked(t, w.client(t, receive(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })))
	lost := wait.Stalls()
	w.attemptNow(t, id)
	stalled := lost()
	event := w.event(t, id)
	if len(event.Attempts) != 1 || event.State == Delivered {
		t.Fatalf("the event: %+v", event)
	}
	wait.InTime(t, "the attempt", event.Attempts[0].Duration, work.DefaultLimits.Webhook+500*time.Millisecond, stalled)
}
