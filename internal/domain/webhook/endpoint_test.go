package webhook

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
)

func TestValidateURL(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"https://partner.example", "https://partner.example/hooks?key=1", "https://partner.example:8443/", "https://[2001:db8::1]:1/x",
		"https://partner.example/" + strings.Repeat("x", MaxURL-len("https://partner.example/")),
	} {
		if err := ValidateURL(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "partner.example", "http://partner.example", "HTTPS://partner.example", "https://", "https:///x", "https://:8443/",
		"https://u:hush@partner.example/", "https://partner.example/#x", "https://partner.example/#", "https://partner.example:0/",
		"https://partner.example:65536/", "https://partner.example:/", "https://partner.example/a b", "https://pärtner.example/",
		"https://partner.example/\x00", "https://partner.example/%zz", "ftp://partner.example/", " https://partner.example",
		"https://partner.example/" + strings.Repeat("x", MaxURL),
		"https://%ff.example/", "https://partner%c3.example/", // no text, once it is decoded: the audit log could not hold its host
	} {
		err := ValidateURL(text)
		if wrong := (refusal.Field{}); !errors.As(err, &wrong) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The secret is shown once, lies sealed in the database, and stays when the URL changes.
func TestSetEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.db.Client(t)
	if _, err := w.Endpoint(t.Context(), client.ID); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("before: %v", err)
	}
	secret, err := w.SetEndpoint(t.Context(), client.ID, "https://partner.example/hooks?key=hush")
	if err != nil || len(secret) != len(secretPrefix)+44 || !strings.HasPrefix(secret, secretPrefix) {
		t.Fatalf("%d characters, %v", len(secret), err)
	}
	sealed := pgtest.Value[string](t, w.db, "select secret from webhook_endpoints")
	if strings.Contains(sealed, strings.TrimPrefix(secret, secretPrefix)) {
		t.Error("the secret lies open in the database")
	}
	if again, err := w.SetEndpoint(t.Context(), client.ID, "https://partner.example/other"); err != nil || again != "" {
		t.Errorf("%q, %v", again, err)
	}
	if pgtest.Value[string](t, w.db, "select secret from webhook_endpoints") != sealed {
		t.Error("a new URL changed the secret")
	}
	endpoint, err := w.Endpoint(t.Context(), client.ID)
	if err != nil || endpoint.URL != "https://partner.example/other" || endpoint.ClientID != client.ID ||
		endpoint.CreatedAt.IsZero() || !endpoint.StoppedAt.IsZero() || !endpoint.RotatingUntil.IsZero() {
		t.Errorf("%+v, %v", endpoint, err)
	}
	if err := w.RemoveEndpoint(t.Context(), client.ID); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"remove again": w.RemoveEndpoint(t.Context(), client.ID),
		"rotate":       second(w.RotateSecret(t.Context(), client.ID, SecretOverlap, nil)),
		"sample":       second(w.SendSample(t.Context(), client.ID, ConnectionRevoked)),
	} {
		if !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.SetEndpoint(t.Context(), client.ID, "https://%ff.example/"); !errors.Is(err, refusal.ErrFields) {
		t.Errorf("a host that is no text: %v", err)
	}
	offboarded := w.db.Client(t, func(c *pgtest.Client) { c.Status = "offboarded" })
	if _, err := w.SetEndpoint(t.Context(), offboarded.ID, "https://partner.example"); !errors.Is(err, refusal.ErrClientOffboarded) {
		t.Errorf("an offboarded client: %v", err)
	}
	if _, err := w.SetEndpoint(t.Context(), uuid.New(), "https://partner.example"); !errors.Is(err, refusal.ErrClientNotFound) {
		t.Errorf("no client: %v", err)
	}
	if noted := pgtest.Value[string](t, w.db, "select string_agg(action || detail, ' ' order by id) from audit_log"); noted !=
		`webhook.created{"host": "partner.example"} webhook.url_set{"host": "partner.example"} webhook.removed{}` {
		t.Errorf("the audit log: %s", noted)
	}
}

func second[T any](_ T, err error) error { return err }

// Both secrets sign for 24 hours, then the new one alone.
func TestRotateSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, nil)
	client := w.client(t, r)
	old := r.secret
	fresh, err := w.RotateSecret(t.Context(), client.ID, SecretOverlap, nil)
	if err != nil || fresh == old {
		t.Fatal(err)
	}
	w.attemptNow(t, w.revoked(t, client)) // verified with the old one
	c := r.next(t)
	if strings.Count(c.signature, "v1,") != 2 {
		t.Errorf("the signatures: %s", c.signature)
	}
	verify(t, fresh, c.header, c.body)
	if endpoint, err := w.Endpoint(t.Context(), client.ID); err != nil || endpoint.RotatingUntil.IsZero() {
		t.Errorf("%+v, %v", endpoint, err)
	}

	w.db.Clock.Advance(24*time.Hour + time.Second)
	r.secret = fresh
	w.attemptNow(t, w.revoked(t, client))
	if c := r.next(t); strings.Count(c.signature, "v1,") != 1 {
		t.Errorf("after a day: %s", c.signature)
	}
	if endpoint, err := w.Endpoint(t.Context(), client.ID); err != nil || !endpoint.RotatingUntil.IsZero() {
		t.Errorf("%+v, %v", endpoint, err)
	}
}

// A sample is signed and as documented, is answered at once, and leaves no trace.
func TestSendSample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) })
	client := w.client(t, r)
	for _, eventType := range []string{ConnectionRevoked, ActivityUpdated} {
		attempt, err := w.SendSample(t.Context(), client.ID, eventType)
		if err != nil || attempt.Status != http.StatusTeapot || attempt.Success() || attempt.At.IsZero() {
			t.Errorf("%s: %+v, %v", eventType, attempt, err)
		}
		if c := r.next(t); !strings.Contains(string(c.body), `"type":"`+eventType+`"`) {
			t.Errorf("%s: %s", eventType, c.body)
		}
	}
	if _, err := w.SendSample(t.Context(), client.ID, "x"); !errors.Is(err, ErrEventType) {
		t.Errorf("an unknown type: %v", err)
	}
	if events, err := w.Events(t.Context(), Filter{Limit: 10}); err != nil || len(events) != 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// Events are listed oldest first, page by page, by client and state; those that settled 30 days ago go.
func TestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.client(t, receive(t, nil)), w.client(t, receive(t, nil))
	var ids []uuid.UUID
	for i := range 5 {
		client := one
		if i == 2 {
			client = other
		}
		ids = append(ids, w.revoked(t, client))
		w.db.Clock.Advance(time.Hour) // longer than this test takes
	}
	w.attemptNow(t, ids[0])
	w.attemptNow(t, ids[2])
	list := func(filter Filter) (found []uuid.UUID) {
		t.Helper()
		for {
			events, err := w.Events(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				return found
			}
			for _, event := range events {
				found = append(found, event.ID)
			}
			filter.After = events[len(events)-1].Key()
		}
	}
	check := func(name string, got []uuid.UUID, want ...int) {
		t.Helper()
		var expected []uuid.UUID
		for _, i := range want {
			expected = append(expected, ids[i])
		}
		if len(got) != len(expected) {
			t.Fatalf("%s: %d events", name, len(got))
		}
		for i := range got {
			if got[i] != expected[i] {
				t.Errorf("%s: event %d is another", name, i)
			}
		}
	}
	check("all", list(Filter{Limit: 2}), 0, 1, 2, 3, 4)
	check("of a client", list(Filter{ClientID: one.ID, Limit: 3}), 0, 1, 3, 4)
	check("delivered", list(Filter{State: Delivered, Limit: 1}), 0, 2)
	check("of a client, pending", list(Filter{ClientID: one.ID, State: Pending, Limit: 10}), 1, 3, 4)

	stats, err := w.Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Pending != 3 || stats[0].Delivered != 2 || stats[0].Oldest < 4*time.Hour {
		t.Errorf("the statistics: %+v, %v", stats, err) // both clients have one name
	}

	w.db.Clock.Advance(30*24*time.Hour - 4*time.Hour - 30*time.Minute)
	if err := w.Sweep(t.Context(), w.db.Now()); err != nil {
		t.Fatal(err)
	}
	check("after 30 days and half an hour", list(Filter{Limit: 10}), 1, 2, 3, 4)
	if n := pgtest.Value[int](t, w.db, "select count(*)::int from webhook_attempts"); n != 1 {
		t.Errorf("%d attempts are left", n)
	}
	if _, err := w.Event(t.Context(), ids[0]); !errors.Is(err, ErrNoEvent) {
		t.Errorf("the event that was swept: %v", err)
	}
	for _, text := range []string{ids[1].String(), messageID(ids[1])} {
		if id, err := ParseEventID(text); err != nil || id != ids[1] {
			t.Errorf("%s: %v, %v", text, id, err)
		}
	}
	if _, err := ParseEventID("msg_1"); !errors.Is(err, ErrNoEvent) {
		t.Errorf("msg_1: %v", err)
	}
}

// Nothing of what is secret or a receiver's own is in the log, whatever happens.
func TestLogHoldsNothingSensitive(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, pgtest.New(t), credential.NewTestKeyring())
	r := receive(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusGone)
		_, _ = rw.Write([]byte("an-answer"))
	})
	client := w.client(t, r)
	w.attemptNow(t, w.revoked(t, client))
	closed := receive(t, nil)
	broken := w.client(t, closed)
	closed.Close()
	id := w.revoked(t, broken)
	for range 10 {
		w.db.Clock.Advance(w.attemptNow(t, id))
	}
	log := w.log.String()
	if strings.Count(log, "\n") < 3 {
		t.Errorf("the log: %s", log)
	}
	for _, secret := range []string{"hush", "127.0.0.1", "an-answer", r.secret, closed.secret, "grant_id"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q:\n%s", secret, log)
		}
	}
}

// TestSecretReplacedAtOnce: of many who have seen the same secret, one replaces it.
func TestSecretReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.client(t, receive(t, nil))
	for range 2 {
		endpoint, err := w.Endpoint(t.Context(), client.ID)
		if err != nil {
			t.Fatal(err)
		}
		var replaced atomic.Int32
		var presses sync.WaitGroup
		for range 8 {
			presses.Go(func() {
				_, err := w.RotateSecret(t.Context(), client.ID, SecretOverlap, &endpoint.RotatingUntil)
				if err == nil {
					replaced.Add(1)
				} else if !errors.Is(err, ErrReplacedSince) {
					t.Error(err)
				}
			})
		}
		presses.Wait()
		if n := replaced.Load(); n != 1 {
			t.Fatalf("it was replaced %d times", n)
		}
		w.db.Clock.Advance(time.Minute)
	}
	if _, err := w.RotateSecret(t.Context(), uuid.New(), SecretOverlap, new(time.Time)); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("an unknown client: %v", err)
	}
}

// After the database has adopted a new keyset, which opens no former secret, a replaced secret signs alone and at once.
func TestRotateSecretOfAnotherKeyset(t *testing.T) {
	t.Parallel()
	before := newWorld(t)
	r := receive(t, nil)
	client := before.client(t, r)
	w := newWorldOn(t, before.db, credential.NewTestKeyring())
	if _, err := w.SendSample(t.Context(), client.ID, ConnectionRevoked); !errors.Is(err, errNoSecret) {
		t.Errorf("a sample with a secret that cannot be opened: %v", err)
	}
	secret, err := w.RotateSecret(t.Context(), client.ID, SecretOverlap, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.secret = secret
	if attempt, err := w.SendSample(t.Context(), client.ID, ConnectionRevoked); err != nil || !attempt.Success() {
		t.Errorf("a sample with the new secret: %+v, %v", attempt, err)
	}
	id := w.revoked(t, client)
	if w.attemptNow(t, id); w.event(t, id).State != Delivered {
		t.Errorf("an event is %s", w.event(t, id).State)
	}
}
