package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// For any number of networks and tries, the entries of a minute are bounded, and so is the memory of them. Entries that could not
// be written are written at the next try.
func TestFailedSignInsAreBounded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	log, now := audit.New(db.Pool, wait.Patient, 0), time.Now()
	tries := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			if err := log.RecordFailedSignIn(t.Context(), now, fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries := func(want int) {
		t.Helper()
		if n := pgtest.Value[int](t, db, "select count(*) from audit_log where action = 'console.sign_in_failed' and detail = '{}'"); n != want {
			t.Errorf("%d entries, want %d", n, want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.RecordFailedSignIn(gone, now, "0"); err == nil {
		t.Error("an entry that could not be written is none")
	}
	tries(0, 1)
	entries(1)
	tries(0, 1200)
	tries(0, 1200)
	entries(1001) // all networks above a thousand are one
	now = now.Add(time.Minute)
	tries(1190, 1200)
	entries(1011)
	now = now.Add(-24 * time.Hour) // a clock that was wrong
	tries(1190, 1200)
	entries(1021)
}

// The log has who looked at the log of whose sign-ins, once a minute.
func TestReadersOfSignIns(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	servers := []*audit.Log{audit.New(db.Pool, wait.Patient, 0), audit.New(db.Pool, wait.Patient, 0)}
	user := newUser(t, db)
	read := func(actor string, of uuid.UUID) {
		t.Helper()
		for _, log := range servers {
			if err := log.RecordSignIns(work.WithActor(t.Context(), actor), "console", of); err != nil {
				t.Fatal(err)
			}
		}
	}
	read("ada", user.ID)
	read("grace", user.ID)
	read("ada", uuid.Nil)
	db.Clock.Advance(time.Minute)
	read("ada", user.ID)
	var got []string
	for _, event := range list(t, servers[0], audit.Filter{Action: "sign_ins.viewed"}) {
		got = append(got, fmt.Sprint(event.Actor, event.UserID == user.ID, string(event.Detail)))
	}
	const by = `{"by": "console"}`
	if diff := cmp.Diff([]string{"adatrue" + by, "gracetrue" + by, "adafalse" + by, "adatrue" + by}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if mine := list(t, servers[0], audit.Filter{UserID: user.ID, Action: "sign_ins.viewed"}); len(mine) != 3 {
		t.Errorf("%d entries are about the user", len(mine))
	}
}
