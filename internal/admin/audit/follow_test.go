package audit_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// entry is a statement that writes an entry of the actor $1 and of nobody.
const entry = `insert into audit_log (subject, actor, action) values ('00000000-0000-0000-0000-000000000000', $1, 'test.done')`

// follow returns the actors of what a caller finds who has followed the log up to a key, and the key up to which it has now.
func follow(t *testing.T, log *audit.Log, after page.Key) (actors []string, last page.Key) {
	t.Helper()
	found, err := log.List(t.Context(), audit.Filter{}, after, 100)
	if err != nil {
		t.Fatal(err)
	}
	last = after
	for _, e := range found.Events {
		actors, last = append(actors, e.Actor), e.Key()
	}
	return actors, last
}

// A caller that follows the log finds an entry that commits late: later entries are listed after it, and not before.
func TestFollowersMissNoEntry(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	log, impatient := newLog(db.Pool), newLog(db.Pool)
	impatient.Settle(0)
	slow, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := slow.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, entry, "first")
	if got, _ := follow(t, impatient, page.Key{}); !slices.Equal(got, []string{"first"}) {
		t.Errorf("beside a transaction that has written nothing: %q", got)
	}
	if _, err := slow.Exec(t.Context(), entry, "slow"); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, entry, "quick")
	got, last := follow(t, impatient, page.Key{})
	if newest, err := log.Search(t.Context(), audit.Filter{}, page.Key{}, 1); err != nil || newest.Events[0].Actor != "quick" {
		t.Errorf("the newest is not shown at once: %+v, %v", newest, err)
	}
	waited := make(chan []string)
	go func() {
		got, _ := follow(t, log, page.Key{})
		waited <- got
	}()
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	more, _ := follow(t, log, last)
	if all := append(got, more...); !slices.Equal(all, []string{"first", "slow", "quick"}) {
		t.Errorf("followed were %q and then %q", got, more)
	}
	if all := <-waited; !slices.Equal(all, []string{"first", "slow", "quick"}) {
		t.Errorf("a patient caller found %q", all)
	}
}

// An entry has the instant of its statement, which may wait for something else before it comes to the log.
func TestFollowersMissNoStatementThatWaits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	log := newLog(db.Pool)
	log.Settle(0)
	held, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := held.Exec(t.Context(), "lock table clients"); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		_, err := db.Pool.Exec(context.WithoutCancel(t.Context()), "with c as (update clients set name = name returning 1) "+entry,
			pgx.QueryExecModeSimpleProtocol, "slow")
		written <- err
	}()
	wait.Until(t, "the statement waits", func() bool { return db.Waiting(t) > 0 })
	db.Exec(t, entry, "quick")
	got, last := follow(t, log, page.Key{})
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	log.Settle(time.Minute)
	more, _ := follow(t, log, last)
	if all := append(got, more...); !slices.Equal(all, []string{"slow", "quick"}) {
		t.Errorf("followed were %q and then %q", got, more)
	}
}
