package app

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/oauth"
	"connect-svc/internal/testing/pgtest"
)

// newConnection is a new user's connection with a client.
func (e *endToEnd) newConnection(t *testing.T, partner pgtest.Client) (pgtest.User, oauth.Tokens) {
	t.Helper()
	user := e.db.User(t)
	return user, exchange(t, e.app, partner, authorized(t, e.app, partner, user))
}

// hold takes a lock by a session of the test's own, until it is freed or the test ends.
func (e *endToEnd) hold(t *testing.T, lock string, args ...any) (free func()) {
	t.Helper()
	session, err := pgx.Connect(t.Context(), e.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	free = func() { _ = session.Close(context.Background()) } // a second time it does nothing
	t.Cleanup(free)
	for _, statement := range []struct {
		sql  string
		args []any
	}{{sql: "begin"}, {lock, args}} {
		if _, err := session.Exec(t.Context(), statement.sql, statement.args...); err != nil {
			t.Fatal(err)
		}
	}
	return free
}

// holdConnection holds the connection of a grant.
func (e *endToEnd) holdConnection(t *testing.T, grant uuid.UUID) (free func()) {
	t.Helper()
	user := pgtest.Value[uuid.UUID](t, e.db, "select user_id from grant_directory where grant_id = $1", grant)
	return e.hold(t, "select 1 from connections where user_id = $1 for update", user)
}

// waiting is how many statements wait for a lock, on whichever node.
func (e *endToEnd) waiting(t *testing.T) (n int) {
	t.Helper()
	for _, url := range e.db.URLs {
		session, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var here int
		err = session.QueryRow(t.Context(),
			"select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&here)
		if err := errors.Join(err, session.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		n += here
	}
	return n
}
