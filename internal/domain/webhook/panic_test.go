package webhook

import (
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/testing/wait"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A delivery that panics is a failed attempt of its event. Other events are delivered, and the process goes on.
func TestDeliveryThatPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next := w.sender.client.Transport
	w.sender.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Port() == "1" {
			panic("a transport that panics")
		}
		return next.RoundTrip(r)
	})
	r := receive(t, nil)
	unlucky, other := w.revoked(t, w.client(t, nil)), w.client(t, r)
	stop := w.run(t)
	wait.Until(t, "the attempt is recorded", func() bool { return w.event(t, unlucky).AttemptCount == 1 })
	id := w.revoked(t, other)
	if c := r.next(t); c.id != messageID(id) {
		t.Errorf("delivered was %s", c.id)
	}
	stop()
	event := w.event(t, unlucky)
	if event.State != Pending || event.NextAttemptAt.IsZero() || len(event.Attempts) != 1 || event.Attempts[0].Fault != "an internal error" {
		t.Errorf("the event whose delivery panicked: %+v", event)
	}
	if log := w.log.String(); strings.Count(log, "a transport that panics") != 1 || !strings.Contains(log, "webhook.TestDeliveryThatPanics") {
		t.Errorf("the log has not the one panic with its stack: %s", log)
	}
}
