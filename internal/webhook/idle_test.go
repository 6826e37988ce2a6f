package webhook

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
	"connect-svc/internal/testing/wait"
)

// On connections that may only read, a poll without work succeeds: it takes no lock and writes nothing. With work it does not.
func TestIdlePollWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.window = time.Minute
	pool, err := postgres.Open(t.Context(), w.db.URL, postgres.WithClock(w.db.Clock), postgres.WithLimits(wait.Patient),
		func(c *postgres.Options) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	reader := New(pool, credential.NewTestKeyring(), Settings{Window: time.Minute, Limits: wait.Patient})
	client := w.client(t, receive(t, nil))
	if found := reader.poll(t.Context(), nil, maxHeld); found.err != nil || found.due || len(reader.changed) > 0 {
		t.Errorf("without work: %+v", found)
	}
	w.revoked(t, client)
	if found := reader.poll(t.Context(), nil, maxHeld); found.err == nil || !found.due {
		t.Errorf("with a new event: %+v", found)
	}
	w.taken(t)
	if found := reader.poll(t.Context(), nil, maxHeld); found.err == nil || !found.due {
		t.Errorf("with an event that is due: %+v", found)
	}
	w.claimed(t, map[uuid.UUID]int{client.ID: maxHeld})
	if found := reader.poll(t.Context(), nil, maxHeld); found.err != nil || found.due {
		t.Errorf("while another server sends it: %+v", found)
	}
}

// A server that polls once an hour sends an event at once when it is woken.
func TestWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.maxInterval = time.Hour
	r := receive(t, func(http.ResponseWriter, *http.Request) {})
	client := w.client(t, r)
	before := w.pool.QueueStats().Acquired
	w.run(t)
	wait.Until(t, "the first poll", func() bool { return w.pool.QueueStats().Acquired > before })
	w.revoked(t, client)
	w.Wake()
	r.next(t)
}
