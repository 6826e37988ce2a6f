package webhook

import (
	"testing"
)

// An event that is written is delivered, and the log says so.
func TestDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	client := w.client(t, r)
	w.run(t)
	id := w.revoked(t, client)
	if c := r.next(t); c.id != messageID(id) {
		t.Errorf("webhook-id %s", c.id)
	}
	try, err := w.SendSample(t.Context(), client.ID, ActivityUpdated)
	if err != nil || !try.Success() {
		t.Errorf("%+v %v", try, err)
	}
}
