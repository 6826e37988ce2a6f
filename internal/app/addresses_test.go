package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A server that starts gives the users of release 1.0.0 the keys of their addresses, and logs who shares one, by id.
func TestAddressesGetTheirKeys(t *testing.T) {
	t.Parallel()
	db := pgtest.NewIn(t, "tr-TR ICU")
	stored := func(email string) uuid.UUID {
		id := uuid.New()
		db.Exec(t, `with address as (insert into user_addresses (address, user_id, email) values (lower($2), $1, $2))
			insert into users (user_id, email, timezone, registered_on, created_at) values ($1, $2, 'UTC', '2020-01-01', connect_now())`, id, email)
		return id
	}
	ines := stored("INES1@users.example")
	stored("dup\u00e9@x.example")
	other := stored("dupe\u0301@x.example")
	a, log := openOn(t, db, func(*Config) {})
	if _, err := a.Accounts.FindUser(t.Context(), "ines1@users.example"); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Fatalf("before: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	wait.Until(t, "the user is found", func() bool {
		user, err := a.Accounts.FindUser(t.Context(), "ines1@users.example")
		return err == nil && user.ID == ines
	})
	stop()
	if err := wait.For(t, "the server stops", ended); err != nil {
		t.Fatal(err)
	}
	if said := log.String(); !strings.Contains(said, "addresses of users") || !strings.Contains(said, other.String()) || strings.Contains(said, "x.example") {
		t.Errorf("log: %s", said)
	}
}
