package oauth

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

func eventText(grantID uuid.UUID, version int64, reason string) string {
	return fmt.Sprintf("%s %d %s", grantID, version, reason)
}

// eventsOf are the events of revoked connections for the clients, in the order of their texts. Each is to be delivered.
func (f *fixture) eventsOf(t testing.TB, clients ...uuid.UUID) []string {
	t.Helper()
	rows, err := f.db.Pool.Query(t.Context(), `
		select concat_ws(' ', grant_id, connection_version, reason, nullif(state, 'pending'))
		from webhook_events
		where type = 'connection.revoked' and client_id = any ($1)
		order by 1`, clients)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// Specification 6 and decisions 5: one event for a change of state, with the version whose credentials stopped working.
func TestEventsOfRevokedConnections(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	replay := func(t *testing.T, f *fixture, tokens Tokens) {
		f.refresh(t, tokens)
		f.noGrant(t, tokens)
	}
	revokeAccess := func(t *testing.T, f *fixture, tokens Tokens) {
		must(t, f.Revoke(t.Context(), f.as(f.client.ID), tokens.AccessToken))
	}
	revoke := func(t *testing.T, f *fixture, tokens Tokens) {
		must(t, f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken))
	}
	disconnect := func(t *testing.T, f *fixture, tokens Tokens) {
		must(t, f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID))
	}
	byUser := func(t *testing.T, f *fixture, _ Tokens) { must(t, f.DisconnectUser(t.Context(), f.user, f.client.ID)) }
	byOperator := func(t *testing.T, f *fixture, _ Tokens) {
		must(t, f.DisconnectByOperator(t.Context(), f.user, f.client.ID))
	}
	lapse := func(_ *testing.T, f *fixture, _ Tokens) { f.db.Clock.Advance(DefaultSettings.RefreshInactivity) }
	disable := func(t *testing.T, f *fixture, _ Tokens) { must(t, f.registry.Disable(t.Context(), f.client.ID)) }
	offboard := func(t *testing.T, f *fixture, _ Tokens) {
		if _, err := f.registry.Offboard(t.Context(), f.client.ID); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		acts []func(*testing.T, *fixture, Tokens)
		want []string // reasons, of version 1
	}{
		"3.2 replay, twice":                 {[]func(*testing.T, *fixture, Tokens){replay, func(t *testing.T, f *fixture, tokens Tokens) { f.noGrant(t, tokens) }}, []string{"refresh_token_replayed"}},
		"3.2 revoke, twice":                 {[]func(*testing.T, *fixture, Tokens){revoke, revoke}, []string{"refresh_token_revoked"}},
		"3.2 revoke of an access token":     {[]func(*testing.T, *fixture, Tokens){revokeAccess}, nil},
		"3.2 disconnect, twice":             {[]func(*testing.T, *fixture, Tokens){disconnect, disconnect}, []string{"client_disconnected"}},
		"3.2 disconnect of a revoked one":   {[]func(*testing.T, *fixture, Tokens){revoke, disconnect}, []string{"client_disconnected", "refresh_token_revoked"}},
		"3.2 disconnect of a lapsed one":    {[]func(*testing.T, *fixture, Tokens){lapse, disconnect}, []string{"client_disconnected"}},
		"3.2 the user disconnects":          {[]func(*testing.T, *fixture, Tokens){byUser, byUser}, []string{"user_disconnected"}},
		"3.2 the operator disconnects":      {[]func(*testing.T, *fixture, Tokens){byOperator}, []string{"user_disconnected"}},
		"3.2 a client disabled, offboarded": {[]func(*testing.T, *fixture, Tokens){disable, offboard}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			other := f.newClient(t)
			f.db.Webhook(t, f.client.ID)
			f.db.Webhook(t, other.ID)
			tokens := f.connect(t, scope.All)
			for _, act := range test.acts {
				act(t, f, tokens)
			}
			var want []string
			for _, reason := range test.want {
				want = append(want, eventText(tokens.GrantID, 1, reason))
			}
			if diff := cmp.Diff(want, f.eventsOf(t, f.client.ID), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got := f.eventsOf(t, other.ID); len(got) != 0 {
				t.Errorf("another client has %v", got)
			}
		})
	}
}

// A client without a webhook gets no events, also not later.
func TestNoEventsWithoutAWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	if err := f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from webhook_events"); n != 0 {
		t.Errorf("%d events and jobs", n)
	}
}

// Concurrent revocations on several servers write one event for each change of state.
func TestParallelRevocationsSendOneEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Webhook(t, f.client.ID)
	var want []string
	for version := int64(1); version <= 9; version += 2 {
		tokens := f.connect(t, scope.All)
		acts := make(chan func(*Server) error, 12)
		for range 4 {
			acts <- func(s *Server) error { return s.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken) }
			acts <- func(s *Server) error { return s.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken) }
			acts <- func(s *Server) error {
				_, err := s.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
				return err
			}
		}
		parallel(t, f, cap(acts), func(s *Server) (struct{}, error) { return struct{}{}, (<-acts)(s) })
		reason := pgtest.Value[string](t, f.db, "select coalesce(max(reason), '') from webhook_events where connection_version = $1", version)
		if reason != "refresh_token_revoked" && reason != "refresh_token_replayed" {
			t.Errorf("version %d: the reason is %q", version, reason)
		}
		want = append(want, eventText(tokens.GrantID, version, reason), eventText(tokens.GrantID, version, "client_disconnected"))
		disconnects := func(s *Server) (struct{}, error) {
			return struct{}{}, s.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID)
		}
		parallel(t, f, 1, disconnects)
		if n := pgtest.Value[int64](t, f.db, "select version from connections"); n != version+1 {
			t.Fatalf("version %d after the disconnect of %d", n, version)
		}
	}
	got := f.eventsOf(t, f.client.ID)
	if len(got) != len(want) {
		t.Errorf("%d events, want %d: %v", len(got), len(want), got)
	}
	seen := map[string]bool{}
	for _, text := range got {
		seen[text] = true
	}
	for _, text := range want {
		if !seen[text] {
			t.Errorf("no event: %s", text)
		}
	}
}

// Concurrent disconnects end the connection once and write one event.
func TestParallelDisconnectsSendOneEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Webhook(t, f.client.ID)
	tokens := f.connect(t, scope.All)
	acts := make(chan func(*Server) error, 8)
	for range 4 {
		acts <- func(s *Server) error { return s.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID) }
		acts <- func(s *Server) error { return s.DisconnectUser(t.Context(), f.user, f.client.ID) }
	}
	parallel(t, f, cap(acts), func(s *Server) (struct{}, error) { return struct{}{}, (<-acts)(s) })
	if got := f.eventsOf(t, f.client.ID); len(got) != 1 {
		t.Errorf("events: %v", got)
	}
}

// A change that is rolled back leaves no event.
func TestRolledBackRevocationSendsNoEvent(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard has no trigger")
	t.Parallel()
	f := newFixture(t)
	f.db.Webhook(t, f.client.ID)
	tokens := f.connect(t, scope.All)
	f.db.Exec(t, `create function refuse() returns trigger language plpgsql as $$ begin raise 'disk full'; end $$`)
	f.db.Exec(t, `create constraint trigger refuse after insert on audit_log initially deferred
		for each row execute function refuse()`)
	if err := f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken); err == nil {
		t.Fatal("revoked all the same")
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from webhook_events"); n != 0 {
		t.Errorf("%d events and jobs", n)
	}
	f.works(t, tokens)
}

// The deletion of a user deletes the events about the activity, sent or not. The event about the end of the connection stays.
func TestEventsOfADeletedUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Webhook(t, f.client.ID)
	tokens := f.connect(t, scope.All)
	f.db.Exec(t, `with event as (
			insert into webhook_events (user_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date, queued)
			values ($1, $2, 'activity.updated', $3, 1, 1, '2026-03-10', '2026-03-10', true) returning *
		)
		insert into webhook_queue (event_id, user_id, client_id, created_at, next_attempt_at)
		select event_id, user_id, client_id, created_at, created_at from event`, f.user, f.client.ID, tokens.GrantID)
	accounts := account.New(f.db.Pool, nil, nil, account.Settings{EndConnections: EndConnectionsOfUser})
	if _, err := accounts.DeleteUser(t.Context(), f.user); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{eventText(tokens.GrantID, 1, "account_deleted")}, f.eventsOf(t, f.client.ID)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, table := range []string{"webhook_events where type = 'activity.updated'", "webhook_queue"} {
		if n := pgtest.Value[int](t, f.db, "select count(*)::int from "+table); n != 0 {
			t.Errorf("%d rows are left of %s", n, table)
		}
	}
}
