package oauth

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// counter counts the statements of a server.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A successful act is one statement, a refused one at most two, and it returns the reason.
func TestStatementsOfActs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	statements := new(counter)
	pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithClock(f.db.Clock), postgres.WithTracer(statements), postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := New(pool, f.keys, f.settings)
	me := f.as(f.client.ID)
	wrong := me
	wrong.SecretHash[0]++
	if err := s.AuthenticateClient(t.Context(), me); err != nil { // sets the connection's clock
		t.Fatal(err)
	}
	act := func(name string, want error, most int64, act func() error) {
		t.Helper()
		statements.n.Store(0)
		if err := act(); !errors.Is(err, want) || want == ErrInvalidGrant && (errors.Is(err, ErrReplayed) || errors.Is(err, ErrLapsed)) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if n := statements.n.Load(); n != most {
			t.Errorf("%s: %d statements, want %d", name, n, most)
		}
	}
	exchange := func(as Credentials, code string, got *Tokens) func() error {
		return func() (err error) {
			*got, err = s.Exchange(t.Context(), as, ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier})
			return err
		}
	}
	refresh := func(as Credentials, token string, got *Tokens) func() error {
		return func() (err error) {
			*got, err = s.Refresh(t.Context(), as, token)
			return err
		}
	}
	revoke := func(as Credentials, token string) func() error {
		return func() error { return s.Revoke(t.Context(), as, token) }
	}
	var one, two, three, none Tokens
	code, late := f.code(t, scope.All), f.code(t, scope.All)
	foreign := f.connectOther(t)

	act("exchange by a stranger", ErrInvalidClient, 2, exchange(wrong, code, &none))
	act("exchange", nil, 1, exchange(me, code, &one))
	act("exchange of a used code", ErrInvalidGrant, 2, exchange(me, code, &none))
	act("exchange of a code in flight", ErrInvalidGrant, 2, exchange(me, late, &none))
	act("exchange of no code", ErrInvalidGrant, 1, exchange(me, "svcc_x", &none))
	act("exchange of no code by a stranger", ErrInvalidClient, 1, exchange(wrong, "svcc_x", &none))

	act("refresh by a stranger", ErrInvalidClient, 2, refresh(wrong, one.RefreshToken, &none))
	act("refresh", nil, 1, refresh(me, one.RefreshToken, &two))
	act("refresh with no token", ErrInvalidGrant, 1, refresh(me, "svcr2_x", &none))
	act("replay by a stranger", ErrInvalidClient, 2, refresh(wrong, one.RefreshToken, &none))
	f.works(t, two)
	act("replay", ErrReplayed, 2, refresh(me, one.RefreshToken, &none))
	f.dead(t, two)
	// The third statement finds what has revoked it.
	act("refresh of what is revoked", ErrInvalidGrant, 3, refresh(me, two.RefreshToken, &none))

	three = f.connect(t, scope.All)
	act("revocation of an access token by a stranger", ErrInvalidClient, 1, revoke(wrong, three.AccessToken))
	act("revocation of an access token", nil, 1, revoke(me, three.AccessToken))
	act("the same again", nil, 1, revoke(me, three.AccessToken))
	act("revocation of a refresh token by a stranger", ErrInvalidClient, 1, revoke(wrong, three.RefreshToken))
	act("revocation of a refresh token", nil, 1, revoke(me, three.RefreshToken))
	act("the same again", nil, 1, revoke(me, three.RefreshToken))
	act("revocation of no token", nil, 1, revoke(me, "x"))

	f.db.Clock.Advance(91 * 24 * time.Hour)
	if err := s.AuthenticateClient(t.Context(), me); err != nil {
		t.Fatal(err)
	}
	act("refresh of what has lapsed", ErrLapsed, 2, refresh(me, foreign.RefreshToken, &none))
	disconnect := func(as Credentials, grant uuid.UUID) func() error {
		return func() error { return s.Disconnect(t.Context(), as, grant) }
	}
	act("disconnect by a stranger", ErrInvalidClient, 1, disconnect(wrong, three.GrantID))
	act("disconnect", nil, 3, disconnect(me, three.GrantID))
	act("disconnect of nothing", nil, 2, disconnect(me, uuid.New()))

	if err := f.registry.Disable(t.Context(), f.client.ID); err != nil {
		t.Fatal(err)
	}
	act("a disabled client", ErrInvalidClient, 2, refresh(me, foreign.RefreshToken, &none))
}

// An act that must fail does not wait for a lock of the row.
func TestRefusalsLockNothing(t *testing.T) {
	pgtest.NotOnCluster(t, "the rows of all shards cannot be locked")
	t.Parallel()
	f := newFixture(t)
	code := f.code(t, scope.All)
	if _, err := f.exchange(t, code); err != nil {
		t.Fatal(err)
	}
	tokens := f.connect(t, scope.All)
	for _, state := range []string{"authorized", "revoked"} {
		tx, err := f.db.Open(t).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "select from connections, users, clients for update"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		if _, err := f.Exchange(ctx, f.as(f.client.ID), ExchangeParams{code, callback, verifier}); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("a used code: %v", err)
		}
		if state == "revoked" {
			if _, err := f.Refresh(ctx, f.as(f.client.ID), tokens.RefreshToken); !errors.Is(err, ErrInvalidGrant) {
				t.Errorf("a revoked refresh token: %v", err)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.revoke(t, tokens.RefreshToken)
	}
}

// Specification 5.1: all wrong credentials get the same error.
func TestAuthenticateClient_5_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	secret, _ := f.secrets.Load(f.client.ID)
	for name, words := range map[string][2]string{
		"another secret":       {f.client.ID.String(), secret.(string) + "x"},
		"no secret":            {f.client.ID.String(), ""},
		"another client":       {f.newClient(t).ID.String(), secret.(string)},
		"an unknown client":    {uuid.NewString(), secret.(string)},
		"another spelling":     {"{" + f.client.ID.String() + "}", secret.(string)},
		"no client":            {"", secret.(string)},
		"the wrong way around": {secret.(string), f.client.ID.String()},
	} {
		credentials, err := NewCredentials(words[0], words[1])
		if err == nil {
			err = f.AuthenticateClient(t.Context(), credentials)
		}
		if !errors.Is(err, ErrInvalidClient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	right, err := NewCredentials(f.client.ID.String(), secret.(string))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func(context.Context, uuid.UUID) error
		want   error
	}{{f.registry.Enable, nil}, {f.registry.Disable, ErrInvalidClient}, {f.registry.Enable, nil}} {
		if err := step.change(t.Context(), f.client.ID); err != nil {
			t.Fatal(err)
		}
		if err := f.AuthenticateClient(t.Context(), right); !errors.Is(err, step.want) {
			t.Errorf("the client itself: %v, want %v", err, step.want)
		}
	}
	replaced, err := f.registry.RotateSecret(t.Context(), f.client.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AuthenticateClient(t.Context(), right); !errors.Is(err, ErrInvalidClient) {
		t.Errorf("the replaced secret: %v", err)
	}
	if right, err = NewCredentials(f.client.ID.String(), replaced.Secret); err != nil || f.AuthenticateClient(t.Context(), right) != nil {
		t.Error("the new secret is refused")
	}
}

// A refresh writes its row in place and no index, so that the table and its indexes do not grow with refreshes.
func TestRefreshesWriteNoIndex(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "the counts are those of the nodes' own tables")
	f := newFixture(t)
	pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithClock(f.db.Clock), postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tokens := f.connect(t, scope.All)
	server := New(pool, f.keys, f.settings)
	const refreshes = 50
	for range refreshes {
		if tokens, err = server.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken); err != nil {
			t.Fatal(err)
		}
	}
	// A session reports its statistics only on request.
	if _, err := pool.Exec(t.Context(), "select pg_stat_force_next_flush()"); err != nil {
		t.Fatal(err)
	}
	var inPlace int
	if err := pool.QueryRow(t.Context(), "select n_tup_hot_upd from pg_stat_user_tables where relname = 'connections'").Scan(&inPlace); err != nil {
		t.Fatal(err)
	}
	if inPlace < refreshes*9/10 {
		t.Errorf("%d of %d refreshes wrote no index", inPlace, refreshes)
	}
}
