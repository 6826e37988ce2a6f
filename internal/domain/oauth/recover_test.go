package oauth

import (
	"errors"
	"slices"
	"testing"
	"time"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// backup keeps the connections as they are now, and returns a function that restores them, as a backup or a replica that lacks commits does.
func (f *fixture) backup(t testing.TB) (restore func()) {
	t.Helper()
	f.db.Exec(t, "create table kept as table connections")
	return func() {
		t.Helper()
		f.db.Exec(t, "delete from connections")
		f.db.Exec(t, "insert into connections table kept")
	}
}

// recovered is how many connections the audit log says were recovered.
func (f *fixture) recovered(t testing.TB) int {
	t.Helper()
	return pgtest.Value[int](t, f.db, "select count(*) from audit_log where action = 'connection.recovered'")
}

// A refresh token of a later generation than the row proves lost commits and restores them. A token between the two is a replay.
func TestLostRefreshes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Webhook(t, f.client.ID)
	before := f.connect(t, scope.All)
	used := f.refresh(t, before)
	restore := f.backup(t)
	lost := f.refresh(t, used)
	newest := f.refresh(t, lost)
	restore()

	healed := f.refresh(t, newest)
	if healed.GrantID != before.GrantID || healed.Scopes != before.Scopes || !healed.HistoryFrom.Equal(before.HistoryFrom) ||
		healed.ConnectionVersion != before.ConnectionVersion || healed.ExpiresIn != 300 {
		t.Errorf("%+v", healed)
	}
	f.works(t, newest) // for the rest of its life
	again := f.refresh(t, healed)
	f.works(t, again)
	log := f.audited(t)
	if !slices.Contains(log, "client connection.recovered 1") || f.recovered(t) != 1 {
		t.Errorf("the audit log says %q", log)
	}
	f.noGrant(t, lost)
	f.dead(t, again)
	f.noGrant(t, again)
	if log := f.audited(t); log[len(log)-1] != "client connection.revoked 1 refresh_token_replayed" {
		t.Errorf("after a replay the audit log says %q", log)
	}
}

// One of several presentations of a token that is ahead succeeds, and the others are replays.
func TestParallelRecoveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	restore := f.backup(t)
	newest := f.refresh(t, f.refresh(t, tokens))
	restore()
	won, refused := parallel(t, f, 8, func(s *Server) (Tokens, error) {
		return s.Refresh(t.Context(), f.as(f.client.ID), newest.RefreshToken)
	})
	if len(won) != 1 || refused != 7 || f.recovered(t) != 1 {
		t.Errorf("%d won, %d were refused, %d recovered", len(won), refused, f.recovered(t))
	}
	f.noGrant(t, won[0])
	if state := pgtest.Value[string](t, f.db, "select state from connections"); state != "revoked" {
		t.Errorf("the connection is %s", state)
	}
}

// A token that is ahead lapses by its own time, not by the deadline of the row.
func TestLostRefreshLapses(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		unused time.Duration
		want   error
	}{
		"in time": {90*day - time.Minute, nil},
		"late":    {90*day + time.Second, ErrInvalidGrant},
	} {
		f := newFixture(t)
		tokens := f.connect(t, scope.All)
		restore := f.backup(t)
		f.db.Clock.Advance(80 * day)
		newest := f.refresh(t, tokens)
		f.db.Clock.Advance(test.unused)
		restore()
		f.dead(t, newest)
		if _, err := f.Refresh(t.Context(), f.as(f.client.ID), newest.RefreshToken); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A refresh token of a later version restores the version, its scopes and its first day.
func TestLostAuthorizations(t *testing.T) {
	t.Parallel()
	for name, disconnected := range map[string]bool{"same scopes": false, "disconnected, and other scopes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			old := f.connect(t, scope.All)
			restore := f.backup(t)
			f.db.Clock.Advance(72 * time.Hour)
			scopes := scope.All
			if disconnected {
				f.disconnect(t, old)
				scopes = scope.CyclingDaily
			}
			newest := f.connect(t, scopes)
			if disconnected {
				newest = f.refresh(t, newest)
			}
			restore()
			f.dead(t, newest)
			healed := f.refresh(t, newest)
			if healed.GrantID != newest.GrantID || healed.Scopes != scopes || !healed.HistoryFrom.Equal(newest.HistoryFrom) ||
				healed.ConnectionVersion != newest.ConnectionVersion || f.recovered(t) != 1 {
				t.Errorf("%+v, want %+v", healed, newest)
			}
			f.works(t, healed)
			f.works(t, newest)
			f.dead(t, old)
			f.noGrant(t, old) // of an earlier version: it ends nothing
			f.works(t, f.refresh(t, healed))
			if again := f.connect(t, scopes); again.ConnectionVersion != newest.ConnectionVersion+1 || !again.HistoryFrom.Equal(newest.HistoryFrom) {
				t.Errorf("a new authorization: %+v", again)
			}
		})
	}
}

// Codes and access tokens of a later version are refused. They end nothing.
func TestLostVersionsAreNoReplays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	restore := f.backup(t)
	later := f.connect(t, scope.All)
	code := f.code(t, scope.All)
	restore()
	f.dead(t, later)
	if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("a code of a later version: %v", err)
	}
	f.revoke(t, later.AccessToken)
	f.works(t, tokens)
	f.refresh(t, tokens)
}

// A connection that ended after the commits were lost stays ended, whatever tokens of the lost history are presented.
func TestLostCommitsReviveNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *fixture, Tokens){
		"revoked":      func(t *testing.T, f *fixture, old Tokens) { f.revoke(t, old.RefreshToken) },
		"disconnected": func(t *testing.T, f *fixture, old Tokens) { f.disconnect(t, old) },
		"client offboarded": func(t *testing.T, f *fixture, _ Tokens) {
			if _, err := f.registry.Offboard(t.Context(), f.client.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			old := f.connect(t, scope.All)
			restore := f.backup(t)
			refreshed := f.refresh(t, old)
			f.disconnect(t, old)
			later := f.refresh(t, f.connect(t, scope.All)) // version 3
			restore()
			end(t, f, old)
			lost := []Tokens{refreshed, later}
			for _, tokens := range lost {
				f.noGrant(t, tokens)
				f.dead(t, tokens)
			}
			if name == "client offboarded" {
				return
			}
			f.db.Clock.Advance(time.Hour)
			again := f.connect(t, scope.All)
			for again.ConnectionVersion < later.ConnectionVersion {
				again = f.connect(t, scope.All)
			}
			f.noGrant(t, refreshed)
			f.noGrant(t, later) // of the same version and a later generation, and older than the authorization
			f.works(t, again)
			f.refresh(t, again)
			if n := f.recovered(t); n != 0 {
				t.Errorf("%d recovered", n)
			}
		})
	}
}

// A token that is ahead revokes its version, although the row does not have it yet.
func TestRevokeLostVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.connect(t, scope.All)
	restore := f.backup(t)
	f.db.Clock.Advance(time.Hour)
	one := f.connect(t, scope.All)
	two := f.refresh(t, one)
	restore()
	f.revoke(t, one.RefreshToken)
	for _, tokens := range []Tokens{old, one, two} {
		f.dead(t, tokens)
		f.noGrant(t, tokens)
	}
	if again := f.connect(t, scope.All); again.ConnectionVersion != two.ConnectionVersion+1 {
		t.Errorf("a new authorization has version %d", again.ConnectionVersion)
	}
}

// A lost version that its partner revokes stays ended, also if the audit log that has its authorization is replayed later.
func TestRevokeLostVersionOfWhatHadEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture, Tokens){
		"revoked":      func(f *fixture, old Tokens) { f.revoke(t, old.RefreshToken) },
		"disconnected": func(f *fixture, old Tokens) { f.disconnect(t, old) },
	} {
		f := newFixture(t)
		old := f.connect(t, scope.All)
		end(f, old)
		restore := f.backup(t)
		f.db.Clock.Advance(time.Hour)
		act := Act{UserID: f.user, ClientID: f.client.ID, Action: "connection.authorized", Actor: "client", Scopes: scope.All, At: f.db.Now()}
		act.Until = act.At
		lost := f.refresh(t, f.connect(t, scope.All))
		act.Version = lost.ConnectionVersion
		restore()
		f.db.Exec(t, "delete from audit_log where at >= $1", act.At)
		f.db.Clock.Advance(time.Minute)
		before := f.audited(t)
		f.revoke(t, lost.RefreshToken)
		f.revoke(t, old.RefreshToken)
		if log := f.audited(t); !slices.Equal(log, before) {
			t.Errorf("%s: the audit log has %q more", name, log[len(before):])
		}
		if changed, err := Replay(t.Context(), f.pool, []Act{act}); err != nil || len(changed) != 0 {
			t.Errorf("%s: replayed %v, %v", name, changed, err)
		}
		f.noGrant(t, lost)
		f.dead(t, lost)
		if again := f.connect(t, scope.All); again.ConnectionVersion != lost.ConnectionVersion+1 {
			t.Errorf("%s: a new authorization has version %d", name, again.ConnectionVersion)
		}
	}
}

// A grant whose first exchange is lost stays ended once its client has disconnected it: the code of the exchange does not work, and an audit log
// that is replayed later begins nothing.
func TestDisconnectAfterALostFirstExchange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	code := f.code(t, scope.All)
	restore := f.backup(t)
	act := Act{UserID: f.user, ClientID: f.client.ID, Version: 1, Action: "connection.authorized", Actor: "client", Scopes: scope.All, At: f.db.Now()}
	act.Until = act.At
	lost, err := f.exchange(t, code)
	if err != nil {
		t.Fatal(err)
	}
	restore()
	f.db.Exec(t, "delete from audit_log where action = 'connection.authorized'")
	f.disconnect(t, lost)
	if changed, err := Replay(t.Context(), f.pool, []Act{act}); err != nil || len(changed) != 0 {
		t.Errorf("replayed %v, %v", changed, err)
	}
	f.noGrant(t, lost)
	if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("the code after the disconnect: %v", err)
	}
	if again := f.connect(t, scope.All); again.ConnectionVersion <= lost.ConnectionVersion {
		t.Errorf("a new authorization has version %d", again.ConnectionVersion)
	}
}

// A lost authorization stays ended if the operator has revoked all tokens of its client since. One that came after the revocation begins.
func TestReplayAfterARevocationOfAllTokens(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string]bool{"before": false, "after": true} {
		f := newFixture(t)
		f.revoke(t, f.connect(t, scope.All).RefreshToken)
		restore := f.backup(t)
		lost := f.connect(t, scope.All)
		restore()
		f.db.Exec(t, "delete from audit_log where action = 'connection.authorized' and connection_version = $1", lost.ConnectionVersion)
		f.db.Clock.Advance(time.Minute)
		if _, err := f.RevokeTokensOfClient(t.Context(), f.client.ID); err != nil {
			t.Fatal(err)
		}
		act := Act{UserID: f.user, ClientID: f.client.ID, Version: lost.ConnectionVersion, Action: "connection.authorized", Actor: "client", Scopes: scope.All}
		act.At = f.db.Now().Add(map[bool]time.Duration{false: -time.Minute, true: time.Second}[begins])
		act.Until = act.At
		f.db.Clock.Advance(time.Minute)
		changed, err := Replay(t.Context(), f.pool, []Act{act})
		if err != nil || len(changed) > 0 != begins {
			t.Errorf("%s: replayed %v, %v", name, changed, err)
		}
		if !begins {
			f.noGrant(t, lost)
		}
	}
}

// A recovery needs all that a refresh needs, and a refused one changes nothing.
func TestRefusedRecoveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.connect(t, scope.All)
	restore := f.backup(t)
	newest := f.refresh(t, f.refresh(t, old))
	restore()
	wrong := f.as(f.client.ID)
	wrong.SecretHash[0]++
	if _, err := f.Refresh(t.Context(), wrong, newest.RefreshToken); !errors.Is(err, ErrInvalidClient) {
		t.Errorf("a wrong secret: %v", err)
	}
	if _, err := f.Refresh(t.Context(), f.as(f.newClient(t).ID), newest.RefreshToken); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("another client: %v", err)
	}
	scopes := func(allowed scope.Set) {
		if _, err := f.registry.Update(t.Context(), f.client.ID, func(r *client.Registration) { r.Scopes = allowed }); err != nil {
			t.Fatal(err)
		}
	}
	scopes(scope.DailySteps)
	f.noGrant(t, newest)
	scopes(scope.All)
	stranger := New(f.db.Pool, credential.NewTestKeyring(), f.settings)
	if _, err := stranger.Refresh(t.Context(), f.as(f.client.ID), newest.RefreshToken); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("another keyset: %v", err)
	}
	if n := f.recovered(t); n != 0 {
		t.Errorf("%d recovered", n)
	}
	f.refresh(t, newest)
	if n := f.recovered(t); n != 1 {
		t.Errorf("%d recovered", n)
	}
}

// Two tokens of one generation come from two histories, or from a thief: that is a replay.
func TestTwoTokensOfAGeneration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	restore := f.backup(t)
	lost := f.refresh(t, tokens)
	restore()
	other := f.refresh(t, tokens)
	if _, err := f.Refresh(t.Context(), f.as(f.client.ID), lost.RefreshToken); !errors.Is(err, ErrReplayed) {
		t.Errorf("the other token of the generation: %v", err)
	}
	f.dead(t, other)
	f.noGrant(t, other)
}
