package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// toldOperator writes an event for the operator, as the statements of an authorization and of an end do.
func (w *world) toldOperator(t testing.TB, client pgtest.Client, user uuid.UUID, version int64, reason string) uuid.UUID {
	t.Helper()
	return pgtest.Value[uuid.UUID](t, w.db, `insert into webhook_events
			(user_id, client_id, about_client_id, type, grant_id, connection_version, reason, datasets)
		values ($1, operator_id(), $2, case when $4 = '' then 'connection.authorized' else 'connection.ended' end, $1, $3, nullif($4, ''),
			case when $4 = '' then 5 end)
		returning event_id`, user, client.ID, version, reason)
}

// A network that the operator's webhook may reach is closed to clients.
func TestNetworksOfTheOperator(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	w := &world{New(db.Pool, credential.NewTestKeyring(), Settings{OwnNetworks: loopback, RootCAs: roots(t), Limits: wait.Patient}), db, nil}
	r := receive(t, nil)
	client := w.client(t, r)
	secret, err := w.SetEndpoint(t.Context(), Operator, r.URL)
	if err != nil {
		t.Fatal(err)
	}
	if attempt, err := w.SendSample(t.Context(), client.ID, ActivityUpdated); err != nil || attempt.Fault != "the address is not allowed" || len(r.all()) > 0 {
		t.Errorf("to a client: %+v, %v", attempt, err)
	}
	r.secret = secret
	if attempt, err := w.SendSample(t.Context(), Operator, ConnectionEnded); err != nil || !attempt.Success() {
		t.Errorf("to the operator: %+v, %v", attempt, err)
	}
}

// The operator has a webhook as clients have, though it is none: events are signed, sent, held while it is paused, stopped by a 410, replayed
// and swept.
func TestWebhookOfTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var gone atomic.Bool
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			rw.WriteHeader(http.StatusGone)
		}
	})
	other := receive(t, nil)
	ctx, client, user := t.Context(), w.client(t, other), uuid.New()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, missing := range []error{second(w.Endpoint(ctx, Operator)), second(w.Pause(ctx, Operator)), w.RemoveEndpoint(ctx, Operator)} {
		if !errors.Is(missing, ErrNoEndpoint) {
			t.Errorf("before there is one: %v", missing)
		}
	}
	secret, err := w.SetEndpoint(ctx, Operator, r.URL)
	must(err)
	if again, err := w.SetEndpoint(ctx, Operator, r.URL+"/hooks"); err != nil || again != "" || !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("set again: a secret %t, %v", again != "", err)
	}
	r.secret = secret
	w.run(t)

	begun := w.toldOperator(t, client, user, 1, "")
	w.Wake()
	got := r.next(t)
	want := `{"type":"connection.authorized","timestamp":"` + w.event(t, begun).CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z") + `","data":{"client_id":"` +
		client.ID.String() + `","connection_version":"1","grant_id":"` + user.String() + `","scopes":["daily_steps:read","cycling_activities:read"],"user_id":"` + user.String() + `"}}`
	var sent, wanted any
	must(errors.Join(json.Unmarshal(got.body, &sent), json.Unmarshal([]byte(want), &wanted)))
	if diff := cmp.Diff(wanted, sent); diff != "" || got.id != messageID(begun) {
		t.Errorf("sent (-want +got):\n%s", diff)
	}

	wait.Until(t, "its answer is known", func() bool { return w.event(t, begun).State == Delivered })
	_, err = w.Pause(ctx, Operator)
	must(err)
	ended := w.toldOperator(t, client, user, 1, "operator_disconnected")
	w.revoked(t, client)
	w.Wake()
	other.next(t) // the client's own event, which is younger, does not wait
	if pgtest.Value[bool](t, w.db, "select leased_until is not null from webhook_events where event_id = $1", ended) {
		t.Error("while it is paused its event is leased")
	}
	if waiting, failed, err := w.Waiting(ctx, Operator); err != nil || waiting != 1 || failed != 0 || len(r.all()) != 1 {
		t.Errorf("while it is paused %d wait, %d failed, %d were sent, %v", waiting, failed, len(r.all()), err)
	}
	_, err = w.Resume(ctx, Operator)
	must(err)
	if got := r.next(t); got.id != messageID(ended) || !strings.Contains(string(got.body), `"reason":"operator_disconnected"`) {
		t.Errorf("after the pause %s", got.body)
	}

	for eventType, want := range map[string]error{
		ConnectionAuthorized: nil, ConnectionEnded: nil, ConnectionRevoked: ErrEventType, ActivityUpdated: ErrEventType,
	} {
		if attempt, err := w.SendSample(ctx, Operator, eventType); !errors.Is(err, want) || attempt.Success() != (want == nil) {
			t.Errorf("a sample of %s: %+v, %v", eventType, attempt, err)
		} else if want == nil {
			if sample := r.next(t); strings.Contains(string(sample.body), uuid.Nil.String()) {
				t.Errorf("a sample has an empty id: %s", sample.body)
			}
		}
		if _, err := w.SendSample(ctx, client.ID, eventType); (want == nil) != errors.Is(err, ErrEventType) {
			t.Errorf("a client's sample of %s: %v", eventType, err)
		}
	}
	rotated, err := w.RotateSecret(ctx, Operator, 0, nil)
	must(err)
	r.mu.Lock()
	r.secret = rotated
	r.mu.Unlock()
	must(w.Replay(ctx, ended))
	r.next(t)
	wait.Until(t, "the receiver has answered", func() bool { return w.event(t, ended).State == Delivered })

	gone.Store(true)
	lapsed := w.toldOperator(t, client, user, 2, "lapsed")
	w.Wake()
	r.next(t)
	wait.Until(t, "the event has failed", func() bool { return w.event(t, lapsed).State == Failed })
	if err := w.Replay(ctx, lapsed); !errors.Is(err, ErrStopped) {
		t.Errorf("replayed though it is stopped: %v", err)
	}
	events, err := w.Events(ctx, Filter{ClientID: Operator, Limit: 10})
	must(err)
	stats, err := w.Stats(ctx)
	must(err)
	var names []string
	for _, s := range stats {
		names = append(names, s.Client)
	}
	if len(events) != 3 || !cmp.Equal(names, []string{client.Name, "operator"}) && !cmp.Equal(names, []string{"operator", client.Name}) {
		t.Errorf("%d events in the log, statistics of %q", len(events), names)
	}
	gone.Store(false)
	if _, err := w.SetEndpoint(ctx, Operator, r.URL); err != nil {
		t.Fatal(err)
	}
	if n, err := w.ReplayFailed(ctx, Operator, 10); err != nil || n != 1 {
		t.Errorf("%d replayed, %v", n, err)
	}
	r.next(t)
	must(w.RemoveEndpoint(ctx, Operator))
	if err := w.Replay(ctx, ended); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("replayed without a webhook: %v", err)
	}
	late := w.toldOperator(t, client, user, 3, "lapsed") // by a statement that had seen the webhook
	w.Wake()
	wait.Until(t, "the event has failed", func() bool { return w.event(t, late).State == Failed })
	if acts := pgtest.Value[string](t, w.db, "select string_agg(action, ' ' order by id) from audit_log where client_id = operator_id() and action not in ('webhook.tested', 'webhook.replayed')"); acts !=
		"webhook.created webhook.url_set webhook.paused webhook.resumed webhook.secret_rotated webhook.stopped webhook.url_set webhook.removed" {
		t.Errorf("the audit log has %s", acts)
	}
	must(w.Sweep(ctx, time.Now().Add(40*24*time.Hour)))
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_events"); n != 0 {
		t.Errorf("%d events are left after a month", n)
	}
}
