package embedded

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// While a server stands still nobody gets an answer, neither who is connected nor who comes; then both do.
func TestPause(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Ephemeral: true})
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Continue() })
	answered := make(chan error, 2)
	go func() {
		_, err := conn.Exec(t.Context(), "select")
		answered <- err
	}()
	go func() {
		fresh, err := pgx.Connect(t.Context(), s.URL())
		if err == nil {
			err = fresh.Close(t.Context())
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("an answer while it stands still: %v", err)
		answered <- err
	case <-time.After(200 * time.Millisecond):
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

// Commits outlive a crash, and the end of the primary whose replica is promoted.
func TestCrashAndFailover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/"
	primary, err := Start(t.Context(), Config{Dir: dir + "1"})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, primary.URL(), "create table kept as select 42 as n")
	if err := primary.StopAtOnce(); err != nil {
		t.Fatal(err)
	}
	if primary, err = Start(t.Context(), Config{Dir: dir + "1"}); err != nil {
		t.Fatal(err)
	}
	replica, err := StartReplica(t.Context(), primary, Config{Dir: dir + "2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := primary.StopAtOnce(); err != nil {
		t.Fatal(err)
	}
	execute(t, replica.URL(), "select pg_promote()")
	execute(t, replica.URL(), "update kept set n = n + 1")
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	if replica, err = Start(t.Context(), Config{Dir: dir + "2"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	if got := query[int](t, replica.URL(), "select n from kept"); got != 43 {
		t.Errorf("n = %d, want 43", got)
	}
}
