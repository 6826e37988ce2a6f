package operators_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func read(t *testing.T, file string) *operators.Tokens {
	t.Helper()
	tokens, err := operators.New(credential.Hash(unnamed), file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestSession(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	sessions, ctx := operators.NewSessions(db.Pool), t.Context()
	file := filepath.Join(t.TempDir(), "tokens")
	ada, adaLine := create(t, "ada", false)
	write(t, file, adaLine)
	tokens := read(t, file)
	start := func(token string) operators.SessionKey {
		t.Helper()
		key, holder, err := sessions.Start(ctx, tokens, token)
		if err != nil {
			t.Fatal(err)
		}
		if known, _ := tokens.Find(token); known != holder {
			t.Errorf("%+v signed in, not %+v", holder, known)
		}
		return key
	}
	is := func(what string, tokens *operators.Tokens, key operators.SessionKey, want operators.Operator) {
		t.Helper()
		got, err := sessions.Get(ctx, tokens, key)
		if want.Name == "" && !errors.Is(err, operators.ErrNoSession) || want.Name != "" && err != nil || got != want {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	nobody, holder := operators.Operator{}, operators.Operator{Name: "ada"}

	if _, _, err := sessions.Start(ctx, tokens, ada+"x"); !errors.Is(err, operators.ErrNoToken) {
		t.Errorf("nobody's token: %v", err)
	}
	key, second, plain := start(ada), start(ada), start(unnamed)
	is("ada", tokens, key, holder)
	is("the one without a name", tokens, plain, operators.Operator{Name: "operator"})
	is("no key", tokens, operators.SessionKey{}, nobody)
	for _, want := range []string{"ada", ""} { // a form that is sent twice
		if who, err := sessions.End(ctx, tokens, second); err != nil || who.Name != want {
			t.Errorf("%+v signed out, %v, want %s", who, err, want)
		}
	}
	noted := func(want string) {
		t.Helper()
		const entries = "select string_agg(actor || ' ' || action, ', ' order by id) from audit_log where subject = '00000000-0000-0000-0000-000000000000'"
		if got := pgtest.Value[string](t, db, entries); got != want {
			t.Errorf("the audit log has %s, want %s", got, want)
		}
	}
	const entries = "ada console.signed_in, ada console.signed_in, operator console.signed_in, ada console.signed_out"
	noted(entries)
	is("signed out", tokens, second, nobody)

	db.Clock.Advance(operators.SessionLifetime - 10*time.Second)
	is("shortly before its end", tokens, key, holder)

	// The list is read again: the rights are those of now, and whose token has gone is signed out.
	write(t, file, "ada read "+adaLine[len("ada write "):])
	is("may only look now", read(t, file), key, operators.Operator{Name: "ada", ReadOnly: true})
	write(t, file, "")
	is("the token has gone", read(t, file), key, nobody)
	is("the token of another", read(t, file), plain, operators.Operator{Name: "operator"})
	if who, err := sessions.End(ctx, read(t, file), key); err != nil || who != nobody {
		t.Errorf("%+v signed out without a token, %v", who, err)
	}

	db.Clock.Advance(10 * time.Second)
	is("after its end", tokens, plain, nobody)
	if who, err := sessions.End(ctx, tokens, plain); err != nil || who != nobody {
		t.Errorf("%+v signed out after the end, %v", who, err)
	}
	noted(entries)
	key = start(ada)
	db.Clock.Advance(operators.SessionLifetime)
	is("after its end as well", tokens, key, nobody)
	if err := sessions.Sweep(ctx, db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, db, "select count(*) from operator_sessions"); n != 0 {
		t.Errorf("%d sessions after the sweep", n)
	}
}
