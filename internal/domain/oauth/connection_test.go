package oauth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// Specification 2.3: what an exchange returns.
func TestTokens_2_3(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.DailySteps|scope.CyclingActivities)
	if tokens.GrantID == uuid.Nil || tokens.HistoryFrom.Format(time.DateOnly) != "2026-03-10" ||
		tokens.ConnectionVersion != 1 || tokens.ExpiresIn != 300 ||
		tokens.Scopes.String() != "daily_steps:read cycling_activities:read" ||
		!strings.HasPrefix(tokens.AccessToken, "svca_") || !strings.HasPrefix(tokens.RefreshToken, "svcr2_") {
		t.Errorf("grant %v from %v, version %d, %d s, scope %s", tokens.GrantID, tokens.HistoryFrom,
			tokens.ConnectionVersion, tokens.ExpiresIn, tokens.Scopes)
	}
	access, err := f.Authenticate(t.Context(), tokens.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	if access.UserID != f.user || access.ClientID != f.client.ID || access.GrantID != tokens.GrantID ||
		access.ConnectionVersion != 1 || access.Scopes != tokens.Scopes || !access.HistoryFrom.Equal(tokens.HistoryFrom) ||
		access.RegisteredOn.Format(time.DateOnly) != "2020-01-01" ||
		access.RequestsPerMinute != 600 || access.Burst != 60 || access.ConcurrentReads != 10 {
		t.Errorf("access %+v", access)
	}
}

// Specification 3.1, 4.3, 7.3: every binding of a code. A failed attempt does not use it up.
func TestCodeBindings_3_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t)
	code := f.code(t, scope.All)
	good := ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier}
	access := f.connectOther(t)
	for name, attempt := range map[string]func() (Tokens, error){
		"another client": func() (Tokens, error) { return f.Exchange(t.Context(), f.as(other.ID), good) },
		"another callback": func() (Tokens, error) {
			p := good
			p.RedirectURI += "x"
			return f.Exchange(t.Context(), f.as(f.client.ID), p)
		},
		"another verifier": func() (Tokens, error) {
			p := good
			p.CodeVerifier += "x"
			return f.Exchange(t.Context(), f.as(f.client.ID), p)
		},
		"an unknown code":  func() (Tokens, error) { return f.exchange(t, "svcc_"+strings.Repeat("A", 200)) },
		"an altered code":  func() (Tokens, error) { return f.exchange(t, code[:len(code)-4]+"AAAA") },
		"an access token":  func() (Tokens, error) { return f.exchange(t, access.AccessToken) },
		"a refresh token":  func() (Tokens, error) { return f.exchange(t, access.RefreshToken) },
		"no code":          func() (Tokens, error) { return f.exchange(t, "") },
		"a relabelled one": func() (Tokens, error) { return f.exchange(t, "svcc_"+strings.TrimPrefix(access.AccessToken, "svca_")) },
	} {
		if _, err := attempt(); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	tokens, err := f.exchange(t, code)
	if err != nil {
		t.Fatalf("the code was used up by a failed attempt: %v", err)
	}
	if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("a used code: %v", err)
	}
	f.works(t, tokens)
	f.refresh(t, tokens)
}

// connectOther connects another user to the client.
func (f *fixture) connectOther(t testing.TB) Tokens {
	t.Helper()
	mine := f.user
	defer func() { f.user = mine }()
	f.user = f.newUser(t, "UTC")
	return f.connect(t, scope.All)
}

// Decisions section 4: of two outstanding codes only the first exchanged one works, and a disconnect ends an outstanding code.
func TestCodesInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.code(t, scope.All), f.code(t, scope.All)
	tokens, err := f.exchange(t, two)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.exchange(t, one); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("the other code in flight: %v", err)
	}
	for _, state := range []string{"authorized", "disconnected"} {
		if got := pgtest.Value[string](t, f.db, "select state from connections"); got != state {
			t.Fatalf("state %s, want %s", got, state)
		}
		code := f.code(t, scope.All)
		if err := f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("a code of before a disconnect of an %s connection: %v", state, err)
		}
	}
}

// Specification 3.2, row by row.
func TestCredentials_3_2(t *testing.T) {
	t.Parallel()
	t.Run("refresh", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		before := f.connect(t, scope.All)
		f.db.Clock.Advance(48 * time.Hour)
		after := f.refresh(t, before)
		if after.GrantID != before.GrantID || after.Scopes != before.Scopes || !after.HistoryFrom.Equal(before.HistoryFrom) ||
			after.ConnectionVersion != before.ConnectionVersion || after.ExpiresIn != 300 {
			t.Error("a refresh changed grant_id, scope, history_from or connection_version")
		}
		if after.AccessToken == before.AccessToken || after.RefreshToken == before.RefreshToken {
			t.Error("a refresh returned an old token")
		}
		f.works(t, after)
		f.db.Clock.Advance(89 * 24 * time.Hour) // the deadline was reset
		f.works(t, f.refresh(t, after))
	})
	t.Run("lapse", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tokens := f.connect(t, scope.All)
		f.db.Clock.Advance(90*24*time.Hour - 10*time.Second)
		tokens = f.refresh(t, tokens)
		f.db.Clock.Advance(90*24*time.Hour + time.Second)
		f.dead(t, tokens)
		f.noGrant(t, tokens)
		again := f.connect(t, scope.All)
		if again.GrantID != tokens.GrantID || !again.HistoryFrom.Equal(tokens.HistoryFrom) || again.ConnectionVersion != 2 {
			t.Error("a reconnect after a lapse changed grant_id or history_from, or did not raise the version")
		}
	})
	t.Run("an access token does not outlive the deadline", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.settings.RefreshInactivity = 10 * time.Second
		tokens := f.connect(t, scope.All)
		f.works(t, tokens)
		f.db.Clock.Advance(11 * time.Second)
		f.dead(t, tokens)
	})
	t.Run("replay", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		one := f.connect(t, scope.All)
		two := f.refresh(t, one)
		three := f.refresh(t, two)
		other := f.connectOther(t)
		f.noGrant(t, one)
		for _, tokens := range []Tokens{one, two, three} {
			f.dead(t, tokens)
			f.noGrant(t, tokens)
		}
		f.works(t, other)
		again := f.connect(t, scope.All)
		f.dead(t, three)
		f.noGrant(t, two) // a used token of an older version cannot touch the new one
		f.works(t, again)
		f.refresh(t, again)
	})
	t.Run("replay by another client changes nothing", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		one := f.connect(t, scope.All)
		two := f.refresh(t, one)
		if _, err := f.Refresh(t.Context(), f.as(f.newClient(t).ID), one.RefreshToken); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("refresh of a foreign token: %v", err)
		}
		f.works(t, two)
		f.refresh(t, two)
	})
	t.Run("a refresh token of the same generation that was never handed out", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tokens := f.connect(t, scope.All)
		payload, err := credential.OpenAs[refreshToken](f.keys, credential.RefreshToken, tokens.RefreshToken)
		if err != nil {
			t.Fatal(err)
		}
		same, err := f.keys.Seal(credential.RefreshToken, payload)
		if err != nil {
			t.Fatal(err)
		}
		f.noGrant(t, Tokens{RefreshToken: same})
		f.dead(t, tokens) // a replay
		f.noGrant(t, tokens)
	})
	t.Run("revoke an access token", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		one := f.connect(t, scope.All)
		two := f.refresh(t, one)
		f.revoke(t, one.AccessToken)
		f.revoke(t, one.AccessToken)
		f.dead(t, one)
		f.works(t, two)
		f.works(t, f.refresh(t, two))
		f.db.Clock.Advance(301 * time.Second)
		f.dead(t, one)
		if err := f.Sweep(t.Context(), f.db.Now()); err != nil {
			t.Fatal(err)
		}
		if n := pgtest.Value[int](t, f.db, "select count(*)::int from revoked_access_tokens"); n != 0 {
			t.Errorf("%d revoked tokens after they expired", n)
		}
	})
	t.Run("revoke a refresh token", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		one := f.connect(t, scope.All)
		two := f.refresh(t, one)
		f.db.Clock.Advance(72 * time.Hour)
		f.revoke(t, two.RefreshToken)
		f.revoke(t, two.RefreshToken)
		f.dead(t, two)
		f.noGrant(t, two)
		again := f.connect(t, scope.All)
		if again.GrantID != one.GrantID || !again.HistoryFrom.Equal(one.HistoryFrom) || again.ConnectionVersion != 2 {
			t.Error("a reconnect after a revocation changed grant_id or history_from, or did not raise the version by one")
		}
		f.revoke(t, two.RefreshToken) // of an older version
		f.works(t, again)
	})
	t.Run("a used refresh token revokes as well", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		one := f.connect(t, scope.All)
		two := f.refresh(t, one)
		f.revoke(t, one.RefreshToken)
		f.dead(t, two)
		f.noGrant(t, two)
	})
	t.Run("revoke a foreign or unknown token", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tokens := f.connect(t, scope.All)
		other := f.newClient(t)
		for _, token := range []string{tokens.AccessToken, tokens.RefreshToken, "svca_x", "", "\x00"} {
			if err := f.Revoke(t.Context(), f.as(other.ID), token); err != nil {
				t.Errorf("revoke: %v", err)
			}
		}
		f.works(t, tokens)
		f.refresh(t, tokens)
	})
	t.Run("disconnect", func(t *testing.T) {
		t.Parallel()
		for _, state := range []string{"authorized", "lapsed", "revoked"} {
			f := newFixture(t)
			tokens := f.connect(t, scope.DailySteps)
			switch state {
			case "lapsed":
				f.db.Clock.Advance(91 * 24 * time.Hour)
			case "revoked":
				f.revoke(t, tokens.RefreshToken)
			}
			f.disconnect(t, tokens)
			f.dead(t, tokens)
			f.noGrant(t, tokens)
			f.db.Clock.Advance(24 * time.Hour)
			again := f.connect(t, scope.All)
			if again.GrantID != tokens.GrantID || !again.HistoryFrom.After(tokens.HistoryFrom) || again.ConnectionVersion != 3 {
				t.Errorf("%s: a fresh connection keeps grant_id, has a new history_from and a version raised twice: %d",
					state, again.ConnectionVersion)
			}
		}
	})
	t.Run("disconnect a foreign or unknown grant", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		foreign := f.connect(t, scope.All)
		f.client = f.newClient(t)
		tokens := f.connect(t, scope.All)
		for _, grant := range []uuid.UUID{foreign.GrantID, uuid.New()} {
			if err := f.Disconnect(t.Context(), f.as(f.client.ID), grant); err != nil {
				t.Error(err)
			}
		}
		f.works(t, foreign)
		f.works(t, tokens)
	})
	t.Run("client disabled and enabled", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tokens := f.connect(t, scope.All)
		if err := f.registry.Disable(t.Context(), f.client.ID); err != nil {
			t.Fatal(err)
		}
		f.dead(t, tokens)
		f.noGrant(t, tokens)
		if err := f.registry.Enable(t.Context(), f.client.ID); err != nil {
			t.Fatal(err)
		}
		f.works(t, tokens)
		f.refresh(t, tokens) // the attempt while disabled used nothing up
	})
	t.Run("access token expires", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tokens := f.connect(t, scope.All)
		f.db.Clock.Advance(299 * time.Second)
		f.works(t, tokens)
		f.db.Clock.Advance(2 * time.Second)
		f.dead(t, tokens)
		f.refresh(t, tokens)
	})
	t.Run("user deleted", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tokens, code := f.connect(t, scope.All), f.code(t, scope.All)
		f.db.Exec(t, "delete from users where user_id = $1", f.user)
		f.dead(t, tokens)
		f.noGrant(t, tokens)
		f.revoke(t, tokens.AccessToken)
		f.disconnect(t, tokens)
		if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("exchange: %v", err)
		}
	})
}

func (f *fixture) revoke(t testing.TB, token string) {
	t.Helper()
	if err := f.Revoke(t.Context(), f.as(f.client.ID), token); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) disconnect(t testing.TB, tokens Tokens) {
	t.Helper()
	if err := f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
		t.Fatal(err)
	}
}

// Specification 4.4: a refresh whose scope is no longer allowed is invalid_grant, and the token stays usable.
func TestScopeNoLongerAllowed_4_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	f.db.Exec(t, "update clients set scopes = 3 where client_id = $1", f.client.ID)
	f.noGrant(t, tokens)
	f.db.Exec(t, "update clients set scopes = 7 where client_id = $1", f.client.ID)
	f.refresh(t, tokens)
}

// Specification 2.2: grant_id is pairwise for a user and a client.
func TestGrantIsPairwise_2_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine, other := f.connect(t, scope.All), f.connectOther(t)
	f.client = f.newClient(t)
	elsewhere := f.connect(t, scope.All)
	if mine.GrantID == other.GrantID || mine.GrantID == elsewhere.GrantID {
		t.Error("two connections share a grant_id")
	}
}

// Decisions section 3: a credential is not accepted as another kind, and one sealed before a rotation still opens.
func TestCredentialsOfOtherKinds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens, code := f.connect(t, scope.All), f.code(t, scope.All)
	for _, value := range []string{tokens.RefreshToken, code, "svca_" + strings.TrimPrefix(tokens.RefreshToken, "svcr2_"), "", "x"} {
		if _, err := f.Authenticate(t.Context(), value); !errors.Is(err, ErrInvalidAccessToken) {
			t.Errorf("authenticated by another credential: %v", err)
		}
	}
	for _, value := range []string{tokens.AccessToken, code, "svcr2_" + strings.TrimPrefix(tokens.AccessToken, "svca_"), ""} {
		if _, err := f.Refresh(t.Context(), f.as(f.client.ID), value); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("refreshed by another credential: %v", err)
		}
	}
	f.revoke(t, code) // no token: nothing happens
	f.works(t, tokens)
	f.keys = credential.NewTestKeyring()
	f.dead(t, tokens)
}

// An access token that expires later than any that is issued now was issued by a clock that was ahead. It gives no access.
func TestAccessTokenOfAWrongClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	payload, err := credential.OpenAs[accessToken](f.keys, credential.AccessToken, tokens.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	for left, works := range map[time.Duration]bool{355 * time.Second: true, 365 * time.Second: false, 65 * time.Minute: false} {
		payload.ExpiresAt = f.db.Now().Add(left).UnixMicro()
		if tokens.AccessToken, err = f.keys.Seal(credential.AccessToken, payload); err != nil {
			t.Fatal(err)
		}
		if works {
			f.works(t, tokens)
		} else {
			f.dead(t, tokens)
		}
	}
}
