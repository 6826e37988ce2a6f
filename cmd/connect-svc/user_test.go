package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

// onDay is a day in the form YYYY-MM-DD.
func onDay(text string) openapi_types.Date {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return openapi_types.Date{Time: day}
}

func TestUser(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const id = "6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"
	create := func(email string, more ...string) uuid.UUID {
		return succeedJSON[operatorapi.User](t, env(db), "", append([]string{"user", "create",
			"--email", email, "--timezone", "Europe/Berlin", "--registered-on", "2026-01-31"}, more...)...).UserId
	}
	if got := create("ada@example.com", "--id", id); got.String() != id {
		t.Errorf("created %s, want %s", got, id)
	}
	if second := create("bob@example.com"); second == uuid.Nil || second.String() == id {
		t.Errorf("the second user's id is %s", second)
	}

	want := operatorapi.User{UserId: uuid.MustParse(id), Email: "ada@example.com", Timezone: "Europe/Berlin", RegisteredOn: onDay("2026-01-31")}
	got := succeedJSON[operatorapi.User](t, env(db), "", "user", "show", id)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(operatorapi.User{}, "CreatedAt")); diff != "" {
		t.Error(diff)
	}
	if text := succeed(t, env(db), "", "user", "show", id); !strings.Contains(text, "registered on  2026-01-31") {
		t.Errorf("show, for people:\n%s", text)
	}
	if list := succeedJSON[[]operatorapi.User](t, env(db), "", "user", "list"); len(list) != 2 {
		t.Errorf("list: %+v", list)
	}
	if text := succeed(t, env(db), "", "user", "list"); strings.Count(text, "\n") != 3 || !strings.HasPrefix(text, "USER ID") {
		t.Errorf("not a table of two users:\n%s", text)
	}
}

// Shown by id or by address, in any case, and changed field by field.
func TestUserShowAndUpdate(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	want := succeedJSON[operatorapi.User](t, env(db), "", "user", "show", walker)
	for _, name := range []string{"ada@example.com", "ADA@Example.com", strings.ToUpper(walker)} {
		if diff := cmp.Diff(want, succeedJSON[operatorapi.User](t, env(db), "", "user", "show", name)); diff != "" {
			t.Errorf("show %s (-want +got):\n%s", name, diff)
		}
	}
	for _, change := range []struct {
		flags []string
		make  func(*operatorapi.User)
	}{
		{[]string{"--email", "lovelace@example.com"}, func(u *operatorapi.User) { u.Email = "lovelace@example.com" }},
		{[]string{"--timezone", "Asia/Tokyo", "--registered-on", "2025-12-31"}, func(u *operatorapi.User) { u.Timezone, u.RegisteredOn = "Asia/Tokyo", onDay("2025-12-31") }},
	} {
		change.make(&want)
		got := succeedJSON[operatorapi.User](t, env(db), "", append([]string{"user", "update", walker}, change.flags...)...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("update %v (-want +got):\n%s", change.flags, diff)
		}
	}
	if diff := cmp.Diff(want, succeedJSON[operatorapi.User](t, env(db), "", "user", "show", "lovelace@example.com")); diff != "" {
		t.Errorf("shown after the updates (-want +got):\n%s", diff)
	}
	refuse(t, env(db), statusFailed, []string{"no such user"}, "user", "show", "ada@example.com")
	refuse(t, env(db), statusFailed, []string{"no such user"}, "user", "update", "00000000-0000-4000-8000-000000000000", "--timezone", "UTC")
	refuse(t, env(db), statusUsage, []string{"nothing to change"}, "user", "update", walker)
	refuse(t, env(db), statusUsage, []string{"--timezone: must"}, "user", "update", walker, "--timezone", "Mars/Phobos")
	refuse(t, env(db), statusUsage, []string{"--registered-on: must"}, "user", "update", walker, "--registered-on", "1899-12-31")
}

func TestUserDelete(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	user, company := db.User(t), db.Client(t)
	connected(t, db, user, company)
	id := user.ID.String()
	got := succeedJSON[map[string]any](t, env(db), "", "user", "delete", id, "--yes")
	if diff := cmp.Diff(map[string]any{"user_id": id, "connections_ended": 1.0}, got); diff != "" {
		t.Errorf("deleted: %+v", got)
	}
	refuse(t, env(db), statusFailed, []string{"no such user"}, "user", "show", id)
	refuse(t, env(db), statusFailed, []string{"was deleted"}, "user", "create", "--id", id,
		"--email", user.Email, "--timezone", "UTC", "--registered-on", "2026-01-31")
	events := succeedJSON[[]operatorapi.AuditEvent](t, env(db), "", "audit", "list", "--user", id)
	if len(events) != 2 || events[0].Action != "connection.disconnected" || events[1].Action != "user.deleted" {
		t.Errorf("audit log: %+v", events)
	}
}

// More users than one page of the domain's list.
func TestUserListIsWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), 'u' || n || '@example.com', 'UTC', '2026-01-01', now() from generate_series(1, 2000) n`)
	seen := map[uuid.UUID]bool{}
	for _, user := range succeedJSON[[]operatorapi.User](t, env(db), "", "user", "list") {
		seen[user.UserId] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d users, want 2000", len(seen))
	}
}

func TestUserRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	create := func(email, timezone, day string) []string {
		return []string{"user", "create", "--email", email, "--timezone", timezone, "--registered-on", day}
	}
	succeed(t, env(db), "", create("ada@example.com", "UTC", "2026-01-31")...)
	tests := map[string]struct {
		args   []string
		status int
		says   string
	}{
		"e-mail":         {create("nobody", "UTC", "2026-01-31"), statusUsage, "--email: must"},
		"e-mail taken":   {create("ADA@example.com", "UTC", "2026-01-31"), statusFailed, "another user"},
		"time zone":      {create("x@example.com", "Mars/Olympus", "2026-01-31"), statusUsage, "--timezone: must"},
		"no day":         {create("x@example.com", "UTC", "2026-02-30"), statusUsage, "--registered-on: must be a date"},
		"day too old":    {create("x@example.com", "UTC", "1899-12-31"), statusUsage, "--registered-on: must"},
		"delete unknown": {[]string{"user", "delete", "6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10", "--yes"}, statusFailed, "no such user"},
		"show unknown":   {[]string{"user", "show", "6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"}, statusFailed, "no such user"},
		"show shape":     {[]string{"user", "show", "7"}, statusUsage, "<id>"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, env(db), tt.status, []string{tt.says}, tt.args...)
		})
	}
}
