package main

import (
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

// Wherever a command takes a client's id or a user's, it takes a name that one client has, or an address.
func TestNamesInsteadOfIDs(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	named := func(name string) pgtest.Client {
		return db.Client(t, func(c *pgtest.Client) { c.Name = name })
	}
	company := named("Ride & Co")
	first, second := named("Twice"), named("twice")
	connected(t, db, db.User(t), company)
	env := allSettings(t, db)
	text := strings.Join(strings.Fields(succeed(t, env, "", "find", "ada@example.com")), " ")
	if want := "user ada@example.com user id " + walker; text != want {
		t.Errorf("find says %q, want %q", text, want)
	}
	if text := succeed(t, env, "", "find", "nobody@example.com"); !strings.HasPrefix(text, "Nothing ") {
		t.Errorf("find says %q", text)
	}
	if got := succeedJSON[operatorapi.Client](t, env, "", "client", "show", "ride & CO"); got.ClientId != company.ID {
		t.Errorf("shows %s", got.ClientId)
	}
	for _, args := range [][]string{
		{"client", "update", "Ride & Co", "--burst", "7"}, {"client", "errors", "Ride & Co"}, {"client", "disable", "Ride & Co"},
		{"client", "webhook", "set", "Ride & Co", hook}, {"usage", "--client", "Ride & Co"}, {"webhook", "list", "--client", "Ride & Co"},
		{"connection", "list", "--client", "Ride & Co"}, {"audit", "list", "--client", "Ride & Co"}, {"audit", "list", "--user", "ada@example.com"},
		{"audit", "list", "--user", walker}, {"sample-data", "--user", "ada@example.com", "--days", "1"}, {"client", "offboard", "Ride & Co", "--yes"},
	} {
		succeed(t, env, "", args...)
	}
	refuse(t, env, statusFailed, []string{"several clients", first.ID.String(), second.ID.String()}, "client", "offboard", "TWICE", "--yes")
	refuse(t, env, statusFailed, []string{`no client "Ride"`}, "client", "offboard", "Ride", "--yes") // a part of a name names no client
	refuse(t, env, statusFailed, []string{"no such user"}, "audit", "list", "--user", "nobody@example.com")
	refuse(t, env, statusUsage, []string{"must be a client's id"}, "client", "show", " ")
}
