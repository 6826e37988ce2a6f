package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// NewConnection is a new user's connection with a client.
func (e *Service) NewConnection(t *testing.T, partner pgtest.Client) (pgtest.User, oauth.Tokens) {
	t.Helper()
	user := e.DB.User(t)
	return user, edgetest.Connect(t, e.App.OAuth, partner, scope.All, user.ID)
}

// Hold takes a lock by a session of the test's own, until it is freed or the test ends.
func (e *Service) Hold(t *testing.T, lock string, args ...any) (free func()) {
	t.Helper()
	session, err := pgx.Connect(t.Context(), e.DB.URL)
	if err != nil {
		t.Fatal(err)
	}
	free = func() { _ = session.Close(context.Background()) } // a second time it does nothing
	t.Cleanup(free)
	if _, err := session.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Exec(t.Context(), lock, args...); err != nil {
		t.Fatal(err)
	}
	return free
}

// HoldConnection holds the connection of a grant.
func (e *Service) HoldConnection(t *testing.T, grant uuid.UUID) (free func()) {
	t.Helper()
	user := pgtest.Value[uuid.UUID](t, e.DB, "select user_id from grant_directory where grant_id = $1", grant)
	return e.Hold(t, "select 1 from connections where user_id = $1 for update", user)
}

// Waiting is how many statements wait for a lock, on whichever node.
func (e *Service) Waiting(t *testing.T) (n int) {
	t.Helper()
	for _, url := range e.DB.URLs {
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
