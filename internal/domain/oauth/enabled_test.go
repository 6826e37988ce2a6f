package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
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

// swing has the client be disabled when an act is tried, and enabled when it is asked why the act did nothing.
type swing struct {
	before func(status string)
	end    func() // after too many rounds
	rounds int
}

func (s *swing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	switch name, _, _ := strings.Cut(strings.TrimPrefix(data.SQL, "-- name: "), " "); name {
	case "AuthorizeConnection", "RotateRefreshToken", "RecoverConnection":
		s.before("disabled")
	case "RefuseExchange", "RefuseRefresh":
		if s.before("active"); s.rounds == 1000 {
			s.end()
		}
		s.rounds++
	}
	return ctx
}

func (s *swing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestActsEnd: an act that is possible whenever it is asked why it was not ends after some rounds, long before the time of its request. It has
// changed nothing, and says so.
func TestActsEnd(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"exchange", "refresh", "recovery"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			swinging := &swing{end: end, before: func(status string) {
				f.db.Exec(t, "update clients set status = $1", status)
			}}
			pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithClock(f.db.Clock), postgres.WithTracer(swinging))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			tokens, code := f.connect(t, scope.All), ""
			switch name {
			case "exchange":
				code = f.code(t, scope.All)
			case "recovery":
				restore := f.backup(t)
				tokens = f.refresh(t, tokens)
				restore()
			}
			s, before := New(pool, f.keys, DefaultSettings), f.changes(t)
			if name == "exchange" {
				_, err = s.Exchange(ctx, f.as(f.client.ID), ExchangeParams{code, callback, verifier})
			} else {
				_, err = s.Refresh(ctx, f.as(f.client.ID), tokens.RefreshToken)
			}
			if !work.NotAttempted(err) || swinging.rounds != rounds {
				t.Errorf("after %d rounds: %v", swinging.rounds, err)
			}
			if after := f.changes(t); after != before {
				t.Errorf("it has changed\n%s to\n%s", before, after)
			}
		})
	}
}

// errUndone rolls a transaction back.
var errUndone = errors.New("undone")

// sample is what an act is given.
type sample struct {
	client Credentials
	code   authorizationCode
	token  refreshToken
	ahead  time.Duration // by how much the database's clock is expected to be ahead of what it is
}

// differences are what can make an act impossible, or possible again: each a change of what is given, or of a row.
var differences = []any{
	func(s *sample) { s.client.SecretHash = [32]byte{} }, func(s *sample) { s.ahead = time.Hour },
	func(s *sample) { s.code.UserID, s.token.UserID = uuid.New(), uuid.New() }, // who was deleted
	func(s *sample) { s.code.ExpiresAt -= time.Hour.Microseconds() }, func(s *sample) { s.code.Scopes = scope.DailySteps },
	func(s *sample) { s.code.Version++ }, func(s *sample) { s.token.Version++ }, func(s *sample) { s.token.Version-- },
	func(s *sample) { s.token.Generation++ }, func(s *sample) { s.token.Generation-- }, func(s *sample) { s.token.Scopes = scope.DailySteps },
	func(s *sample) { s.token.IssuedAt -= 365 * 24 * time.Hour.Microseconds() },
	"connections set version = version - 1", "connections set version = version + 1",
	"connections set state = 'revoked', refresh_hash = null", "connections set state = 'disconnected', refresh_hash = null",
	"connections set refresh_generation = refresh_generation - 1", "connections set refresh_generation = refresh_generation + 1",
	"connections set refresh_hash = case when state = 'authorized' then sha256('another') end", "connections set scopes = 1",
	"connections set refresh_deadline = connect_now()", "connections set authorized_at = connect_now() + interval '1 hour'",
	"clients set status = 'disabled'", "clients set callback_url = 'https://partner.example/new'", "clients set scopes = 1",
	"clients set previous_secret_hash = secret_hash, previous_secret_until = connect_now() + interval '1 hour', secret_hash = sha256('new')",
	"clients set previous_secret_hash = secret_hash, previous_secret_until = connect_now(), secret_hash = sha256('new')",
}

// TestReasonsAgree holds an act and the statement that says why it did nothing to each other, in each state that up to two differences make.
// The act is done if the statement calls it possible, and only then, as long as nothing changes in between. Otherwise it would be tried
// again in vain, or a valid grant refused.
func TestReasonsAgree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connect(t, scope.All)
	f.connect(t, scope.All)
	code, codeErr := credential.OpenAs[authorizationCode](f.keys, credential.AuthorizationCode, f.code(t, scope.All))
	tokens := f.connect(t, scope.All)
	token, tokenErr := credential.OpenAs[refreshToken](f.keys, credential.RefreshToken, f.refresh(t, f.refresh(t, tokens)).RefreshToken)
	if err := errors.Join(codeErr, tokenErr); err != nil {
		t.Fatal(err)
	}
	code.Version = token.Version
	done := map[string]int{}
	for i := range differences {
		for _, second := range differences[i:] {
			given := sample{f.as(f.client.ID), code, token, 0}
			var rows []string
			for _, difference := range []any{differences[i], second} {
				switch difference := difference.(type) {
				case func(*sample):
					difference(&given)
				case string:
					rows = append(rows, difference)
				}
			}
			f.db.Pool.Clock().Believe(time.Until(f.db.Now().Add(given.ahead)) - f.db.Clock.Offset())
			sealedCode, codeErr := f.keys.Seal(credential.AuthorizationCode, given.code)
			sealedToken, tokenErr := f.keys.Seal(credential.RefreshToken, given.token)
			if err := errors.Join(codeErr, tokenErr); err != nil {
				t.Fatal(err)
			}
			rows = append([]string{fmt.Sprintf("connections set refresh_hash = '\\x%x'", credential.Hash(sealedToken))}, rows...)
			hold := func(kind string, tx pgx.Tx, why, try func(*Server) error) {
				t.Helper()
				var results [2]error
				for i, act := range []func(*Server) error{why, try} {
					if err := pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
						s := *f.Server
						s.queries = f.queries.WithTx(tx)
						results[i] = act(&s)
						return errUndone
					}); !errors.Is(err, errUndone) {
						t.Fatal(err)
					}
				}
				recoverable := errors.Is(results[0], errRecoverable)
				if possible := recoverable || errors.Is(results[0], errRepeat); possible != (results[1] == nil) || errors.Is(results[1], errRepeat) {
					t.Errorf("%s with %+v and %q: the reason is %v, and the act ends with %v", kind, given, rows, results[0], results[1])
				}
				if recoverable {
					kind = "recovery"
				}
				if results[1] == nil {
					done[kind]++
				}
			}
			if err := postgres.InTx(t.Context(), f.db.Pool, func(tx pgx.Tx) error {
				for _, row := range rows {
					row = "update " + row + " where client_id = $1"
					args := []any{f.client.ID}
					if strings.HasPrefix(row, "update connections ") {
						row, args = row+" and user_id = $2", append(args, f.user)
					}
					if _, err := tx.Exec(t.Context(), row, args...); err != nil {
						return err
					}
				}
				hold("exchange", tx, func(s *Server) error { return s.refuseExchange(t.Context(), given.client, given.code, callback) },
					func(s *Server) error {
						_, err := s.Exchange(t.Context(), given.client, ExchangeParams{sealedCode, callback, verifier})
						return err
					})
				hold("refresh", tx, func(s *Server) error {
					_, err := s.refuseRefresh(t.Context(), given.client, given.token, sealedToken)
					return err
				},
					func(s *Server) error {
						_, err := s.Refresh(t.Context(), given.client, sealedToken)
						return err
					})
				return errUndone
			}); !errors.Is(err, errUndone) {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []string{"exchange", "refresh", "recovery"} {
		if done[kind] == 0 {
			t.Errorf("no %s was possible: %v", kind, done)
		}
	}
}
