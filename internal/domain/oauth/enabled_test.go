package oauth

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
)

// before runs something before the first statement that asks why an act did nothing.
type before func()

func (b *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	for _, name := range []string{"AuthenticateClient", "RefuseExchange", "RefuseRefresh"} {
		if do := *b; do != nil && strings.HasPrefix(data.SQL, "-- name: "+name+" ") {
			*b = nil
			do()
		}
	}
	return ctx
}

func (b *before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// If a client is enabled during one of its acts, the act succeeds or the client is refused. A valid grant is never refused, and a failed
// act never reported as done.
func TestClientEnabledDuringAnAct(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*Server, *fixture, Tokens, string) error{
		"revoke access": func(s *Server, f *fixture, tokens Tokens, _ string) error {
			return s.Revoke(t.Context(), f.as(f.client.ID), tokens.AccessToken)
		},
		"revoke refresh": func(s *Server, f *fixture, tokens Tokens, _ string) error {
			return s.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
		},
		"refresh": func(s *Server, f *fixture, tokens Tokens, _ string) error {
			_, err := s.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
			return err
		},
		"exchange": func(s *Server, f *fixture, _ Tokens, code string) error {
			_, err := s.Exchange(t.Context(), f.as(f.client.ID), ExchangeParams{code, callback, verifier})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			enable := new(before)
			pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithClock(f.db.Clock), postgres.WithTracer(enable))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			s := New(pool, f.keys, DefaultSettings)
			tokens := f.connect(t, scope.All)
			code := f.code(t, scope.All)
			if err := f.registry.Disable(t.Context(), f.client.ID); err != nil {
				t.Fatal(err)
			}
			turnOn := func() {
				if err := f.registry.Enable(t.Context(), f.client.ID); err != nil {
					t.Error(err)
				}
			}
			*enable = turnOn
			err = act(s, f, tokens, code)
			if err != nil && !errors.Is(err, ErrInvalidClient) {
				t.Fatalf("%v, want ErrInvalidClient, or that it is done", err)
			}
			turnOn()
			if _, works := f.Authenticate(t.Context(), tokens.AccessToken); strings.HasPrefix(name, "revoke") && err == nil && works == nil {
				t.Error("what was said to be revoked still works")
			}
		})
	}
}
