package account

import (
	"testing"
	"time"

	"github.com/google/uuid"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/wait"
)

// A server that waits for emails reads only: on a connection that can do no more it finds out whether one is due.
func TestIdleOutboxWritesNothing(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithClock(db.Clock), postgres.WithLimits(wait.Patient),
		func(c *postgres.Options) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	is := func(want bool, when string) {
		t.Helper()
		due, err := accountdb.New(pool).ListDueEmails(t.Context(), accountdb.ListDueEmailsParams{Busy: [][]byte{}, Most: 1})
		notices, errNotices := accountdb.New(pool).ListDueNotices(t.Context(), accountdb.ListDueNoticesParams{Kinds: []string{"told"}, Most: 1})
		if (len(due) > 0) != want || err != nil || (len(notices) > 0) != want || errNotices != nil {
			t.Errorf("%s an email is due: %v, %v, and a notice: %v, %v", when, due, err, notices, errNotices)
		}
	}
	a := New(db.Pool, credential.NewTestKeyring(), nil, Settings{Limits: wait.Patient, Notices: map[string]Compose{"told": told}})
	is(false, "without emails")
	for range 2 { // or a notice of another process would wait for an hour
		if _, due, err := a.claimCode(t.Context(), nil, 1); due || err != nil {
			t.Errorf("claimed without emails: %t, %v", due, err)
		}
		select {
		case <-a.outbox.notices.wake:
		default:
			t.Error("a look for codes that finds none is not followed by one for notices")
		}
	}
	a.outbox.idle.Store(false)
	db.Exec(t, "insert into notices (recipient, kind, due_at) values (gen_random_uuid(), 'told', now() + interval '1 hour')")
	if err := a.storeCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: "alex@example.com"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	is(false, "an hour too early")
	db.Exec(t, "update code_emails set due_at = now()")
	db.Exec(t, "update notices set due_at = now()")
	is(true, "in time")
	for range 2 {
		if notices, _, err := a.claimNotice(t.Context(), nil, 1); len(notices) > 0 || err != nil {
			t.Errorf("claimed before the code: %v, %v", notices, err)
		}
		_, _, err := a.claimCode(t.Context(), nil, 1)
		if err != nil {
			t.Error(err)
		}
	}
	if notices, due, err := a.claimNotice(t.Context(), nil, 1); len(notices) != 1 || !due || err != nil {
		t.Errorf("claimed: %v, %v", notices, err)
	}
	is(false, "while a server sends it")
}
