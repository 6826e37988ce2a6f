package oauth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// During an overlap every act of a client accepts both secrets, until the end by the database's clock. Connections are not affected.
func TestSecretsOverlap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry := client.NewRegistry(f.db.Pool, EndConnectionsOfClient)
	with := func(secret string) Credentials { return Credentials{f.client.ID, [32]byte(credential.Hash(secret))} }
	current, _ := f.secrets.Load(f.client.ID)
	first := current.(string)
	rotate := func(overlap time.Duration) string {
		t.Helper()
		rotated, err := registry.RotateSecret(t.Context(), f.client.ID, overlap)
		if err != nil {
			t.Fatal(err)
		}
		return rotated.Secret
	}
	// acts are one of each, on connections of their own.
	acts := func(what, secret string, want error) {
		t.Helper()
		as := with(secret)
		code, tokens, revoked := f.code(t, scope.All), Tokens{}, Tokens{}
		exchanged, err := f.Exchange(t.Context(), as, ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier})
		if !errors.Is(err, want) {
			t.Errorf("%s: exchange: %v", what, err)
		}
		if tokens = exchanged; err != nil {
			tokens = f.connect(t, scope.All)
		}
		_, err = f.Refresh(t.Context(), as, tokens.RefreshToken)
		if !errors.Is(err, want) {
			t.Errorf("%s: refresh: %v", what, err)
		}
		revoked = f.connect(t, scope.All)
		if err := f.Revoke(t.Context(), as, revoked.AccessToken); !errors.Is(err, want) {
			t.Errorf("%s: revoke an access token: %v", what, err)
		}
		if err := f.Revoke(t.Context(), as, revoked.RefreshToken); !errors.Is(err, want) {
			t.Errorf("%s: revoke a refresh token: %v", what, err)
		}
		if err := f.Disconnect(t.Context(), as, revoked.GrantID); !errors.Is(err, want) {
			t.Errorf("%s: disconnect: %v", what, err)
		}
		if err := f.Disconnect(t.Context(), as, uuid.New()); want != nil && !errors.Is(err, want) {
			t.Errorf("%s: disconnect of nothing: %v", what, err)
		}
		// A used token is a replay with a right secret, and has no effect with a wrong one.
		if want == nil {
			replayed := f.connect(t, scope.All)
			if _, err := f.Refresh(t.Context(), as, replayed.RefreshToken); err != nil {
				t.Errorf("%s: refresh: %v", what, err)
			}
			if _, err := f.Refresh(t.Context(), as, replayed.RefreshToken); !errors.Is(err, ErrReplayed) {
				t.Errorf("%s: replay: %v", what, err)
			}
		}
	}
	works, ended := error(nil), ErrInvalidClient

	second := rotate(24 * time.Hour)
	f.secrets.Store(f.client.ID, second)
	acts("the new one", second, works)
	acts("the one before, meanwhile", first, works)
	f.db.Clock.Advance(24*time.Hour - time.Minute)
	acts("the one before, a minute before the end", first, works)
	f.db.Clock.Advance(time.Minute)
	acts("the one before, at the end", first, ended)
	acts("the new one, at the end", second, works)

	third := rotate(time.Hour)
	f.secrets.Store(f.client.ID, third)
	fourth := rotate(time.Hour)
	f.secrets.Store(f.client.ID, fourth)
	acts("two before", second, ended)
	acts("one before", third, works)
	fifth := rotate(0)
	f.secrets.Store(f.client.ID, fifth)
	acts("after a rotation without overlap", fourth, ended)
	acts("the last one", fifth, works)
}

// The rules of connections and clients (migrations) cost no call: PostgreSQL inlines them, and the rows are found by their keys.
func TestRulesAreInlined(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	f := newFixture(t)
	rows, err := f.db.Pool.Query(t.Context(), `explain verbose select connection_state(c.state, c.refresh_deadline)
		from connections c join clients cl on cl.client_id = c.client_id
		where c.user_id = $1 and c.client_id = $2 and is_authorized(c.state, c.refresh_deadline) and is_active(cl.status)
			and is_ahead(1, 2, '2026-01-01', '1 day', c.state, c.version, c.refresh_generation, c.authorized_at)
			and is_registered_for($3, $4::scope_set, cl.status, cl.callback_url, cl.scopes)
			and is_secret_of($5, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, c.last_read_at)
			and is_believed(c.authorized_at) and issue_time(c.authorized_at) > c.last_read_at`,
		f.user, f.client.ID, callback, scope.All, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	for _, call := range []string{"connection_state(", "is_authorized(", "is_ahead(", "is_active(", "is_registered_for(", "is_secret_of(",
		"is_believed(", "issue_time(",
	} {
		if strings.Contains(plan, call) {
			t.Errorf("%s is not inlined", call)
		}
	}
	for _, want := range []string{"Index Cond: ((c.", "Index Cond: (cl.", "previous_secret_hash"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(plan)
	}
}
