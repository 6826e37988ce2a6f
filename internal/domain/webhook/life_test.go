package webhook

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/pgtest"
)

// The events of a connection are those of its user and its client, newest first, with their attempts.
func TestEventsOfConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := http.StatusInternalServerError
	partner := w.client(t, receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }))
	other := w.client(t, nil)
	user := w.db.User(t)
	write := func(user, client uuid.UUID, seconds int) uuid.UUID {
		t.Helper()
		return pgtest.Value[uuid.UUID](t, w.db, `insert into webhook_events
			(user_id, client_id, type, grant_id, connection_version, reason, created_at)
			values ($1, $2, 'connection.revoked', gen_random_uuid(), 3, 'refresh_token_revoked', now() + $3 * interval '1 second')
			returning event_id`, user, client, seconds)
	}
	oldest, one, two := write(user.ID, partner.ID, -9), write(user.ID, partner.ID, 0), write(user.ID, partner.ID, 0)
	write(user.ID, other.ID, 1)
	write(w.db.User(t).ID, partner.ID, 1)
	w.attemptNow(t, oldest)
	status = http.StatusNoContent
	w.attemptNow(t, oldest)

	var seen []uuid.UUID
	var last Event
	for before := (page.Key{}); ; {
		page, err := w.EventsOf(t.Context(), user.ID, partner.ID, before, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		last, before = page[0], page[0].Key()
		seen = append(seen, last.ID)
	}
	if len(seen) != 3 || seen[2] != oldest || seen[0] == seen[1] || (seen[0] != one && seen[0] != two) {
		t.Errorf("seen %v, want %s, %s and then %s", seen, one, two, oldest)
	}
	want := w.event(t, oldest)
	for i := range want.Attempts {
		want.Attempts[i].Response = nil
	}
	if diff := cmp.Diff(want.Attempts, last.Attempts); diff != "" || len(last.Attempts) != 2 || last.State != Delivered {
		t.Errorf("attempts of a %s event (-want +got):\n%s", last.State, diff)
	}
}
