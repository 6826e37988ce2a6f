package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"connect-svc/internal/admin/audit"
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
