package oauth

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// receipts are those of the user that wait, in their order.
func (f *fixture) receipts(t testing.TB) []string {
	t.Helper()
	rows, err := f.db.Pool.Query(t.Context(), `
		select concat_ws(' ', kind, data ->> 'by', data ->> 'version') from notices
		where recipient = $1 and data ->> 'client_id' = $2 order by put_at, kind`, f.user, f.client.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestReceipts: one for each time that a partner begins to read, and one for each end that is not the user's own.
func TestReceipts(t *testing.T) {
	t.Parallel()
	type act = func(*testing.T, *fixture, Tokens) error
	replay := func(t *testing.T, f *fixture, tokens Tokens) error {
		f.refresh(t, tokens)
		f.noGrant(t, tokens)
		f.noGrant(t, tokens)
		return nil
	}
	refresh := func(t *testing.T, f *fixture, tokens Tokens) error { f.refresh(t, tokens); return nil }
	again := func(t *testing.T, f *fixture, _ Tokens) error { f.connect(t, scope.All); return nil }
	revoke := func(t *testing.T, f *fixture, tokens Tokens) error {
		return f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
	}
	revokeAccess := func(t *testing.T, f *fixture, tokens Tokens) error {
		return f.Revoke(t.Context(), f.as(f.client.ID), tokens.AccessToken)
	}
	disconnect := func(t *testing.T, f *fixture, tokens Tokens) error {
		return f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID)
	}
	byUser := func(t *testing.T, f *fixture, _ Tokens) error {
		return f.DisconnectUser(t.Context(), f.user, f.client.ID)
	}
	byOperator := func(t *testing.T, f *fixture, _ Tokens) error {
		return f.DisconnectByOperator(work.WithActor(t.Context(), "cli:robin"), f.user, f.client.ID)
	}
	revokeAll := func(t *testing.T, f *fixture, _ Tokens) error {
		_, err := f.RevokeTokensOfClient(t.Context(), f.client.ID)
		return err
	}
	offboard := func(t *testing.T, f *fixture, _ Tokens) error {
		_, err := f.registry.Offboard(t.Context(), f.client.ID)
		return err
	}
	pass := func(t *testing.T, f *fixture, _ Tokens) error {
		f.db.Clock.Advance(DefaultSettings.RefreshInactivity)
		return nil
	}
	tell := func(t *testing.T, f *fixture, _ Tokens) error { return f.TellLapses(t.Context()) }
	// A server of release 1.0.0 knows no receipts.
	older := func(t *testing.T, f *fixture, _ Tokens) error {
		f.db.Exec(t, "update connections set version = version + 1, authorized_at = connect_now(), refresh_deadline = connect_now() + interval '90 days'")
		return nil
	}
	for name, test := range map[string]struct {
		acts []act
		want []string // after the first
	}{
		"nothing else":                    {nil, nil},
		"refresh":                         {[]act{refresh}, nil},
		"an access token revoked":         {[]act{revokeAccess}, nil},
		"allowed again":                   {[]act{again, again}, nil},
		"replay, twice":                   {[]act{replay}, []string{"connection_ended replay"}},
		"revoked, twice":                  {[]act{revoke, revoke}, []string{"connection_ended partner"}},
		"revoked, then disconnected":      {[]act{revoke, disconnect}, []string{"connection_ended partner"}},
		"revoked, then allowed again":     {[]act{revoke, again}, []string{"connection_ended partner", "connection_begun 2"}},
		"disconnected, twice":             {[]act{disconnect, disconnect}, []string{"connection_ended partner"}},
		"disconnected, then again":        {[]act{disconnect, again}, []string{"connection_ended partner", "connection_begun 3"}},
		"by the user":                     {[]act{byUser}, nil},
		"by the user, then disconnected":  {[]act{byUser, disconnect, byOperator}, nil},
		"by the operator":                 {[]act{byOperator, byOperator}, []string{"connection_ended operator"}},
		"all tokens revoked":              {[]act{revokeAll, revokeAll}, []string{"connection_ended operator"}},
		"offboarded":                      {[]act{offboard}, []string{"connection_ended operator"}},
		"all tokens revoked, offboarded":  {[]act{revokeAll, offboard}, []string{"connection_ended operator"}},
		"not lapsed yet":                  {[]act{tell}, nil},
		"lapsed":                          {[]act{pass, tell, tell}, []string{"connection_ended lapse"}},
		"lapsed, then revoked":            {[]act{pass, tell, revoke, disconnect}, []string{"connection_ended lapse"}},
		"lapsed, then disconnected":       {[]act{pass, tell, disconnect}, []string{"connection_ended lapse"}},
		"lapsed, then offboarded":         {[]act{pass, tell, offboard}, []string{"connection_ended lapse"}},
		"lapsed, not told, disconnected":  {[]act{pass, disconnect, tell}, []string{"connection_ended partner"}},
		"lapsed, allowed again, revoked":  {[]act{pass, tell, again, revokeAll}, []string{"connection_ended lapse", "connection_begun 2", "connection_ended operator"}},
		"lapsed, allowed again, lapsed":   {[]act{pass, tell, again, pass, tell}, []string{"connection_ended lapse", "connection_begun 2", "connection_ended lapse"}},
		"lapsed, by 1.0.0 again, revoked": {[]act{pass, tell, older, revokeAll}, []string{"connection_ended lapse", "connection_ended operator"}},
		"lapsed, by 1.0.0 again, lapsed":  {[]act{pass, tell, older, pass, tell}, []string{"connection_ended lapse", "connection_ended lapse"}},
		"lapsed for longer than a week":   {[]act{pass, func(_ *testing.T, f *fixture, _ Tokens) error { f.db.Clock.Advance(8 * 24 * time.Hour); return nil }, tell}, nil},
		"ended by the user, then offered": {[]act{byUser, again}, []string{"connection_begun 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tokens := f.connect(t, scope.All)
			for _, act := range test.acts {
				f.db.Clock.Advance(time.Second) // receipts have an order
				if err := act(t, f, tokens); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(append([]string{"connection_begun 1"}, test.want...), f.receipts(t)); diff != "" {
				t.Errorf("receipts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReceiptOfAnEndThatSeveralServersSee is one.
func TestReceiptOfAnEndThatSeveralServersSee(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture, *Server, Tokens) error{
		"replay": func(f *fixture, s *Server, tokens Tokens) error {
			_, _ = s.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
			return nil
		},
		"disconnect": func(f *fixture, s *Server, tokens Tokens) error {
			return s.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID)
		},
		"lapse": func(_ *fixture, s *Server, _ Tokens) error { return s.TellLapses(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tokens := f.connect(t, scope.All)
			f.refresh(t, tokens)
			if name == "lapse" {
				f.db.Clock.Advance(DefaultSettings.RefreshInactivity)
			}
			var servers sync.WaitGroup
			for range 4 {
				server := New(f.db.Pool, f.keys, f.settings)
				for range 3 {
					servers.Go(func() {
						if err := end(f, server, tokens); err != nil {
							t.Error(err)
						}
					})
				}
			}
			servers.Wait()
			if got := f.receipts(t); len(got) != 2 {
				t.Errorf("receipts: %q", got)
			}
		})
	}
}

// TestReceiptsAfterAWait: an act that waits for another server's act decides by what that one has left, not by what it saw before.
func TestReceiptsAfterAWait(t *testing.T) {
	pgtest.NotOnCluster(t, "the waiting is a shard's")
	t.Parallel()
	const (
		revoke = "update connections set state = 'revoked', refresh_hash = null"
		end    = "update connections set state = 'disconnected', refresh_hash = null, version = version + 1"
		lapse  = "update connections set lapse_told = refresh_deadline"
	)
	exchange := func(f *fixture, code string, _ Tokens) error { _, err := f.exchange(t, code); return err }
	offboard := func(f *fixture, _ string, _ Tokens) error {
		_, err := EndConnectionsOfClient(t.Context(), f.db.Pool, f.client.ID)
		return err
	}
	disconnect := func(f *fixture, _ string, tokens Tokens) error {
		return f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID)
	}
	revokeAll := func(f *fixture, _ string, _ Tokens) error {
		_, err := f.RevokeTokensOfClient(t.Context(), f.client.ID)
		return err
	}
	revokeOne := func(f *fixture, _ string, tokens Tokens) error {
		return f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
	}
	tell := func(f *fixture, _ string, _ Tokens) error { return f.TellLapses(t.Context()) }
	replay := func(f *fixture, _ string, tokens Tokens) error {
		_, err := f.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
		return err
	}
	for name, test := range map[string]struct {
		before string // in the database
		first  string // of the other server
		act    func(f *fixture, code string, tokens Tokens) error
		want   []string // after the first
		err    error
		state  string
	}{
		"exchange after a revocation":      {"", revoke, exchange, []string{"connection_begun 2"}, nil, "authorized"},
		"exchange after a refresh":         {"", "update connections set refresh_deadline = refresh_deadline + interval '1 second'", exchange, nil, nil, "authorized"},
		"exchange after a lapse was saved": {"update connections set refresh_deadline = connect_now()", "update connections set refresh_deadline = connect_now() + interval '1 day'", exchange, nil, nil, "authorized"},
		"exchange after an end":            {"", end, exchange, nil, ErrInvalidGrant, "disconnected"},
		"offboarded after a revocation":    {"update clients set status = 'offboarded'", revoke, offboard, nil, nil, "disconnected"},
		"offboarded after an end":          {"update clients set status = 'offboarded'", end, offboard, nil, nil, "disconnected"},
		"offboarded after a lapse":         {"update clients set status = 'offboarded'", lapse, offboard, nil, nil, "disconnected"},
		"disconnected after a revocation":  {"", revoke, disconnect, nil, nil, "disconnected"},
		"disconnected after a lapse":       {"", lapse, disconnect, nil, nil, "disconnected"},
		"all revoked after a revocation":   {"", revoke, revokeAll, nil, nil, "revoked"},
		"revoked after a lapse":            {"", lapse, revokeOne, nil, nil, "revoked"},
		"a replay after a revocation":      {"update connections set refresh_generation = refresh_generation + 1", revoke, replay, nil, ErrInvalidGrant, "revoked"},
		"told after a refresh": {"update connections set refresh_deadline = connect_now() - interval '1 second'",
			"update connections set refresh_deadline = connect_now() + interval '1 day'", tell, nil, nil, "authorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tokens := f.connect(t, scope.All)
			code := f.code(t, scope.All)
			if test.before != "" {
				f.db.Exec(t, test.before)
			}
			other, err := f.db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := other.Exec(t.Context(), test.first); err != nil {
				t.Fatal(err)
			}
			acted := make(chan error, 1)
			go func() { acted <- test.act(f, code, tokens) }()
			wait.Until(t, "the act waits for the row", func() bool { return f.db.Waiting(t) > 0 })
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-acted; !errors.Is(err, test.err) {
				t.Error(err)
			}
			if diff := cmp.Diff(append([]string{"connection_begun 1"}, test.want...), f.receipts(t)); diff != "" {
				t.Errorf("receipts (-want +got):\n%s", diff)
			}
			if state := pgtest.Value[string](t, f.db, "select state from connections"); state != test.state {
				t.Errorf("the connection is %s", state)
			}
		})
	}
}

// TestReceiptsOfADeletedUser: the end of the connections by the deletion has none.
func TestReceiptsOfADeletedUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connect(t, scope.All)
	accounts := account.New(f.db.Pool, nil, nil, account.Settings{EndConnections: EndConnectionsOfUser})
	if _, err := accounts.DeleteUser(t.Context(), f.user); err != nil {
		t.Fatal(err)
	}
	if got := f.receipts(t); len(got) != 0 {
		t.Errorf("receipts: %q", got)
	}
}

// TestDisconnectVersion ends the version of a connection that it names, and no later one.
func TestDisconnectVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	end := func(version int64) error { return f.DisconnectVersion(t.Context(), f.user, f.client.ID, version) }
	if err := end(1); err != ErrNotConnected {
		t.Errorf("without a connection: %v", err)
	}
	f.connect(t, scope.All)
	second := f.connect(t, scope.All)
	if err := end(1); err != ErrNotConnected {
		t.Errorf("of an earlier version: %v", err)
	}
	f.works(t, second)
	if err := end(2); err != nil {
		t.Error(err)
	}
	f.dead(t, second)
	if err := end(2); err != ErrNotConnected {
		t.Errorf("again: %v", err)
	}
	if err := f.DisconnectVersion(t.Context(), uuid.New(), f.client.ID, 1); err != ErrNotConnected {
		t.Errorf("of an unknown user: %v", err)
	}
}
