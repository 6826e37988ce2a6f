package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

// connected connects the user with the client, as an exchange would have done.
func connected(t *testing.T, db *pgtest.DB, user pgtest.User, company pgtest.Client) {
	t.Helper()
	db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from,
		authorized_at, refresh_generation, refresh_hash, refresh_deadline)
		values ($1, $2, gen_random_uuid(), 1, 'authorized', 3, '2026-03-01', connect_now(), 1,
			sha256('refresh token'), connect_now() + interval '90 days')`, user.ID, company.ID)
}

func TestConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ada, bob := db.User(t), db.User(t)
	company := db.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	connected(t, db, ada, company)
	connected(t, db, bob, company)
	list := func(of string, id uuid.UUID) []operatorapi.FoundConnection {
		t.Helper()
		return succeedJSON[[]operatorapi.FoundConnection](t, env(db), "", "connection", "list", of, id.String())
	}

	want := []operatorapi.FoundConnection{{
		UserId: ada.ID, ClientId: company.ID, ClientName: "Ride Club", State: operatorapi.FoundConnectionStateAuthorized,
		Scopes:            []operatorapi.Scope{"daily_steps:read", "cycling_daily:read"},
		HistoryFrom:       onDay("2026-03-01"),
		ConnectionVersion: "1",
		LastReads:         []operatorapi.LastRead{},
	}}
	if diff := cmp.Diff(want, list("--user", ada.ID), cmpopts.IgnoreFields(operatorapi.FoundConnection{}, "GrantId", "AuthorizedAt")); diff != "" {
		t.Errorf("list of a user (-want +got):\n%s", diff)
	}
	if got := list("--client", company.ID); len(got) != 2 || got[0].UserId == got[1].UserId {
		t.Errorf("list of a client: %+v", got)
	}
	if text := succeed(t, env(db), "", "connection", "list", "--client", company.ID.String()); strings.Count(text, "\n") != 3 ||
		!strings.HasPrefix(text, "USER ID") {
		t.Errorf("not a table of two connections:\n%s", text)
	}

	ended := succeedJSON[operatorapi.FoundConnection](t, env(db), "", "connection", "disconnect",
		"--user", ada.ID.String(), "--client", company.ID.String(), "--yes")
	if ended.UserId != ada.ID || ended.ClientId != company.ID || ended.State != operatorapi.FoundConnectionStateDisconnected {
		t.Errorf("disconnect: %+v", ended)
	}
	if got := list("--user", ada.ID); len(got) != 1 || got[0].State != operatorapi.FoundConnectionStateDisconnected {
		t.Errorf("the user's after the disconnect: %+v", got)
	}
	states := map[uuid.UUID]operatorapi.FoundConnectionState{}
	for _, c := range list("--client", company.ID) {
		states[c.UserId] = c.State
	}
	if diff := cmp.Diff(map[uuid.UUID]operatorapi.FoundConnectionState{ada.ID: "disconnected", bob.ID: "authorized"}, states); diff != "" {
		t.Errorf("the client's after the disconnect (-want +got):\n%s", diff)
	}
	events := succeedJSON[[]operatorapi.AuditEvent](t, env(db), "", "audit", "list", "--user", ada.ID.String())
	if len(events) != 1 || events[0].Actor != "cli:grace" || events[0].Action != "connection.disconnected" {
		t.Errorf("audit log: %+v", events)
	}
}

func TestConnectionListIsWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	company := db.Client(t)
	db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), 'u' || n || '@example.com', 'UTC', '2026-01-01', now() from generate_series(1, 2000) n`)
	db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from,
		authorized_at, refresh_generation, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 1, 'revoked', 1, '2026-01-01', now(), 1, now() from users`, company.ID)
	seen := map[uuid.UUID]bool{}
	for _, c := range succeedJSON[[]operatorapi.FoundConnection](t, env(db), "", "connection", "list", "--client", company.ID.String()) {
		seen[c.UserId] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d connections, want 2000", len(seen))
	}
}

func TestConnectionRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	user, company, unknown := db.User(t).ID.String(), db.Client(t).ID.String(), uuid.NewString()
	disconnect := func(user, company string) []string {
		return []string{"connection", "disconnect", "--user", user, "--client", company, "--yes"}
	}
	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"list of nothing":         {[]string{"connection", "list"}, statusUsage, "--user"},
		"list of both":            {[]string{"connection", "list", "--user", user, "--client", company}, statusUsage, "--client"},
		"list of unknown address": {[]string{"connection", "list", "--email", "nobody@example.com"}, statusFailed, "no such user"},
		"list of unknown user":    {[]string{"connection", "list", "--user", unknown}, statusFailed, "no such user"},
		"list of unknown client":  {[]string{"connection", "list", "--client", unknown}, statusFailed, "no such client"},
		"disconnect unknown user": {disconnect(unknown, company), statusFailed, "no such user"},
		"disconnect from unknown": {disconnect(user, unknown), statusFailed, "no such client"},
		"disconnect of nothing":   {disconnect(user, company), statusFailed, "not connected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, env(db), tt.status, []string{tt.says}, tt.args...)
		})
	}
}

func TestClientUpdate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	id := succeedJSON[operatorapi.CreatedClient](t, env(db), "", append(slices.Clone(walkRewards), "--contact-email", "it@a.example")...).ClientId.String()
	want := succeedJSON[operatorapi.Client](t, env(db), "", "client", "show", id)

	want.Burst, want.Scopes, want.ContactEmail = 120, []operatorapi.Scope{"cycling_activities:read"}, ""
	got := succeedJSON[operatorapi.Client](t, env(db), "", "client", "update", id, "--burst", "120",
		"--scope", "cycling_activities:read", "--contact-email", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.Name, want.CallbackUrl, want.HomepageUrl = "Stride", "https://stride.example/cb", "https://stride.example/"
	want.RequestsPerMinute, want.ConcurrentReads = 7, 9
	got = succeedJSON[operatorapi.Client](t, env(db), "", "client", "update", id, "--name", "Stride",
		"--callback", "https://stride.example/cb", "--homepage", "https://stride.example/",
		"--requests-per-minute", "7", "--concurrent-reads", "9")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	refuse(t, env(db), statusUsage, []string{"nothing to change"}, "client", "update", id)
	refuse(t, env(db), statusUsage, []string{"--callback: must"}, "client", "update", id, "--callback", "http://x")
	refuse(t, env(db), statusUsage, []string{"--scope: must"}, "client", "update", id, "--scope", "sleep:read")
	refuse(t, env(db), statusFailed, []string{"no such client"}, "client", "update", uuid.NewString(), "--burst", "1")
}

func TestClientRevokeTokens(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	company, other := db.Client(t), db.Client(t)
	connected(t, db, db.User(t), company)
	ada := db.User(t)
	connected(t, db, ada, company)
	connected(t, db, ada, other)
	db.Exec(t, "insert into webhook_endpoints (client_id, url, secret) values ($1, 'https://walk.example/hook', 'sealed')", company.ID)
	refuse(t, env(db), statusUsage, []string{"--yes"}, "client", "revoke-tokens", company.ID.String())
	revoke := func() int64 {
		return succeedJSON[operatorapi.RevokedClientTokens](t, env(db), "", "client", "revoke-tokens", company.ID.String(), "--yes").ConnectionsRevoked
	}
	if n := revoke(); n != 2 {
		t.Errorf("%d connections are revoked", n)
	}
	if n := revoke(); n != 0 {
		t.Errorf("a repetition revokes %d", n)
	}
	got := pgtest.Value[string](t, db, "select string_agg(state, ' ' order by client_id = $1) from connections", company.ID)
	events := pgtest.Value[string](t, db, "select string_agg(reason, ' ') from webhook_events where client_id = $1", company.ID)
	if got != "authorized revoked revoked" || events != "refresh_token_revoked refresh_token_revoked" {
		t.Errorf("the connections are %s, and the events %s", got, events)
	}
	refuse(t, env(db), statusFailed, []string{"no such client"}, "client", "revoke-tokens", uuid.NewString(), "--yes")
}

func TestClientOffboard(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	company, other := db.Client(t), db.Client(t)
	ada, bob := db.User(t), db.User(t)
	connected(t, db, ada, company)
	connected(t, db, bob, company)
	connected(t, db, ada, other)

	got := succeedJSON[operatorapi.OffboardedClient](t, env(db), "", "client", "offboard", company.ID.String(), "--yes")
	if got != (operatorapi.OffboardedClient{ClientId: company.ID, Status: "offboarded", ConnectionsEnded: 2}) {
		t.Errorf("offboarded: %+v", got)
	}
	list := succeedJSON[[]operatorapi.FoundConnection](t, env(db), "", "connection", "list", "--user", ada.ID.String())
	for _, c := range list {
		if want := map[bool]operatorapi.FoundConnectionState{true: "authorized", false: "disconnected"}[c.ClientId == other.ID]; c.State != want || len(list) != 2 {
			t.Errorf("of the user: %+v", list)
		}
	}
	events := succeedJSON[[]operatorapi.AuditEvent](t, env(db), "", "audit", "list", "--client", company.ID.String())
	if len(events) != 3 || events[0].Action != "client.offboarded" || events[2].Action != "connection.disconnected" {
		t.Errorf("audit log: %+v", events)
	}
	for _, act := range []string{"offboard", "enable", "rotate-secret"} {
		args := []string{"client", act, company.ID.String()}
		if act != "enable" {
			args = append(args, "--yes")
		}
		refuse(t, env(db), statusFailed, []string{"was offboarded"}, args...)
	}
}
