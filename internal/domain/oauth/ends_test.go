package oauth

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// operatorIsTold compares the operator's events with the authorizations and ends in the audit log.
func (f *fixture) operatorIsTold(t *testing.T) {
	t.Helper()
	list := func(query string) []string {
		rows, err := f.db.Pool.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	logged := list(`select concat_ws(' ', coalesce(connection_end(action, actor, detail), 'authorized'), user_id, client_id,
		connection_version - case when action = 'connection.disconnected' then 1 else 0 end) from audit_log where action like 'connection.%' order by 1`)
	told := list(`select concat_ws(' ', coalesce(reason, 'authorized'), user_id, about_client_id, connection_version)
		from webhook_events where client_id = operator_id() order by 1`)
	if diff := cmp.Diff(logged, told); diff != "" || len(logged) == 0 {
		t.Errorf("events of the operator (-audit log +events):\n%s", diff)
	}
}

// A refresh token of a connection that has ended is refused with what ended it and the day, whatever has happened since. The audit log
// and the operator's events have the same end.
func TestReasonOfAnEnd(t *testing.T) {
	t.Parallel()
	type act func(t *testing.T, f *fixture, tokens Tokens) error
	var (
		replay = func(t *testing.T, f *fixture, tokens Tokens) error {
			f.refresh(t, tokens)
			f.noGrant(t, tokens)
			return nil
		}
		revoke = func(t *testing.T, f *fixture, tokens Tokens) error {
			return f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
		}
		disconnect = func(t *testing.T, f *fixture, tokens Tokens) error {
			return f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID)
		}
		byUser = func(t *testing.T, f *fixture, _ Tokens) error {
			return f.DisconnectUser(t.Context(), f.user, f.client.ID)
		}
		byOperator = func(t *testing.T, f *fixture, _ Tokens) error {
			return f.DisconnectByOperator(t.Context(), f.user, f.client.ID)
		}
		revokeAll = func(t *testing.T, f *fixture, _ Tokens) error {
			_, err := f.RevokeTokensOfClient(t.Context(), f.client.ID)
			return err
		}
		again = func(t *testing.T, f *fixture, _ Tokens) error { f.connect(t, scope.All); return nil }
		pass  = func(_ *testing.T, f *fixture, _ Tokens) error {
			f.db.Clock.Advance(DefaultSettings.RefreshInactivity)
			return nil
		}
		tell   = func(t *testing.T, f *fixture, _ Tokens) error { return f.TellLapses(t.Context()) }
		forget = func(t *testing.T, f *fixture, _ Tokens) error { f.db.Exec(t, "delete from audit_log"); return nil }
		remove = func(t *testing.T, f *fixture, _ Tokens) error {
			_, err := account.New(f.db.Pool, nil, nil, account.Settings{EndConnections: EndConnectionsOfUser}).DeleteUser(t.Context(), f.user)
			return err
		}
	)
	for name, test := range map[string]struct {
		acts         []act
		reason, last string // of the refusal, and of the last end in the audit log
	}{
		"replay":                      {[]act{replay}, "the connection was revoked on 2026-03-10, because a used refresh token was presented again", "refresh_token_replayed"},
		"revoked":                     {[]act{revoke}, "the client revoked the connection on 2026-03-10", "refresh_token_revoked"},
		"all tokens revoked":          {[]act{revokeAll}, "the operator revoked all tokens of the client on 2026-03-10", "operator_revoked"},
		"disconnected":                {[]act{disconnect, disconnect}, "the client disconnected on 2026-03-10", "client_disconnected"},
		"by the user":                 {[]act{byUser}, "the user disconnected on 2026-03-10", "user_disconnected"},
		"by the operator":             {[]act{byOperator}, "the operator disconnected on 2026-03-10", "operator_disconnected"},
		"by the user, then again":     {[]act{byUser, again, revoke}, "the user disconnected on 2026-03-10", "user_disconnected"},
		"revoked, then disconnected":  {[]act{revoke, byUser}, "the client revoked the connection on 2026-03-10", "user_disconnected"},
		"again":                       {[]act{again, byUser}, "the user connected again on 2026-03-10, and so there is a later refresh token", "user_disconnected"},
		"deleted":                     {[]act{remove}, "the user was deleted on 2026-03-10", "account_deleted"},
		"lapsed":                      {[]act{pass, tell, tell}, "the connection lapsed on 2026-06-08: it was not refreshed in time", "lapsed"},
		"lapsed, then again":          {[]act{pass, tell, again}, "the connection lapsed on 2026-06-08: it was not refreshed in time", "lapsed"},
		"the log is gone":             {[]act{byUser, forget}, "refresh_token is of an earlier version of the connection", ""},
		"the log of a revoked is not": {[]act{revoke, forget}, "the connection is revoked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.db.Webhook(t, webhook.Operator)
			tokens := f.connect(t, scope.All)
			for _, act := range test.acts {
				if err := act(t, f, tokens); err != nil {
					t.Fatal(err)
				}
			}
			_, err := f.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
			if got := refusal.Reason(err); !errors.Is(err, ErrInvalidGrant) || got != test.reason {
				t.Errorf("refused because %q, want %q: %v", got, test.reason, err)
			}
			if got := pgtest.Value[string](t, f.db, `select coalesce((select connection_end(action, actor, detail) from audit_log
				where connection_end(action, actor, detail) is not null order by at desc, id desc limit 1), '')`); got != test.last {
				t.Errorf("the last end in the audit log is %q, want %q", got, test.last)
			} else if got != "" {
				f.operatorIsTold(t)
			}
			if n := pgtest.Value[int](t, f.db, "select count(*)::int from webhook_events where client_id <> operator_id()"); n != 0 {
				t.Errorf("a client without a webhook has %d events", n)
			}
		})
	}
}

// The operator hears of ends at an offboarding, of which the client does not, and of what is replayed after a failover. Both hear of the rest.
func TestOperatorHearsWhatClientsDoNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Webhook(t, webhook.Operator)
	f.db.Webhook(t, f.client.ID)
	tokens := f.connect(t, scope.DailySteps)
	if err := f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{eventText(tokens.GrantID, 1, "client_disconnected")}, f.eventsOf(t, f.client.ID)); diff != "" {
		t.Errorf("events of the client (-want +got):\n%s", diff)
	}
	now := pgtest.Value[time.Time](t, f.db, "select connect_now()")
	for _, act := range []Act{
		{Action: "connection.authorized", Actor: "client", Version: 3, Scopes: scope.All},
		{Action: "connection.disconnected", Actor: "operator", Version: 4},
		{Action: "connection.authorized", Actor: "client", Version: 5, Scopes: scope.DailySteps},
		{Action: "connection.revoked", Actor: "alice", Version: 5, Reason: "refresh_token_revoked"},
		{Action: "connection.authorized", Actor: "client", Version: 6, Scopes: scope.DailySteps},
	} {
		act.UserID, act.ClientID, act.At, act.Until = f.user, f.client.ID, now.Add(time.Second), now.Add(time.Second)
		if changed, err := Replay(t.Context(), f.pool, []Act{act}); err != nil || changed[act.Action] != 1 {
			t.Fatalf("%s: %v, %v", act.Action, changed, err)
		}
		now = now.Add(time.Second)
	}
	if _, err := f.registry.Offboard(t.Context(), f.client.ID); err != nil {
		t.Fatal(err)
	}
	f.operatorIsTold(t)
	if got := pgtest.Value[string](t, f.db, "select reason from webhook_events where client_id = operator_id() and connection_version = 5 and reason is not null"); got != "operator_revoked" {
		t.Errorf("what the operator has revoked ended by %s", got)
	}
	if diff := cmp.Diff([]string{
		eventText(tokens.GrantID, 1, "client_disconnected"), eventText(tokens.GrantID, 3, "user_disconnected"),
		eventText(tokens.GrantID, 5, "refresh_token_revoked"),
	}, f.eventsOf(t, f.client.ID)); diff != "" {
		t.Errorf("events of the client (-want +got):\n%s", diff)
	}
	if got := pgtest.Value[string](t, f.db, `select string_agg(scope_text(datasets)::text, '; ' order by connection_version)
		from webhook_events where type = 'connection.authorized'`); got != "daily_steps:read; daily_steps:read cycling_daily:read cycling_activities:read; daily_steps:read; daily_steps:read" {
		t.Errorf("the scopes of the authorizations are %s", got)
	}
}

// TestAllTokensAreRevokedWhileOthersEnd: a connection that ends while a part is being revoked does not make that part the last one.
func TestAllTokensAreRevokedWhileOthersEnd(t *testing.T) {
	pgtest.NotOnCluster(t, "the waiting is a shard's")
	t.Parallel()
	f := newFixture(t)
	f.db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@many.example', 'UTC', '2020-01-01', connect_now() from generate_series(1, $1::int) n`, 2*perStatement)
	f.db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
		refresh_generation, refresh_hash, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 1, 'authorized', 7, '2026-03-10', connect_now(), 1, sha256(''), connect_now() + interval '90 days'
		from users where email like '%@many.example'`, f.client.ID)
	other, err := f.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	// More than are left of a part, so that each part has some of them.
	if _, err := other.Exec(t.Context(), `update connections set state = 'disconnected', refresh_hash = null, version = version + 1
		where user_id in (select user_id from users where email like '%@many.example' limit $1)`, perStatement+1); err != nil {
		t.Fatal(err)
	}
	acted := make(chan error, 1)
	go func() {
		_, err := f.RevokeTokensOfClient(t.Context(), f.client.ID)
		acted <- err
	}()
	wait.Until(t, "the act waits for a row", func() bool { return f.db.Waiting(t) > 0 })
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-acted; err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, f.db, "select count(*) from connections where state = 'authorized'"); n != 0 {
		t.Errorf("%d connections are still authorized", n)
	}
}
