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

// Polls take at most a twentieth of a server's time while the database is slow. A poll that took long because the database was away holds
// up the next one only for a moment.
func TestUntilNextPoll(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond:       pollInterval,
		20 * time.Millisecond:  400 * time.Millisecond,
		200 * time.Millisecond: 4 * time.Second,
		4 * time.Second:        9 * time.Second,
	} {
		if got := untilNextPoll(took); got != want {
			t.Errorf("the next poll begins %s after one that took %s, want %s", got, took, want)
		}
	}
}
