package operators_test

import (
	"testing"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

// While a node of a cluster is away that has half of all sessions, and the entries of sign-ins, operators sign in and out.
func TestSessionElsewhere(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tokens, err := operators.New(credential.Hash(unnamed), "")
	if err != nil {
		t.Fatal(err)
	}
	sessions := operators.NewSessions(db.Pool)
	db.Away(t, "operator_sessions", "get_byte(new.secret_hash, 0) < 128")
	db.Away(t, "audit_log", "new.subject = '00000000-0000-0000-0000-000000000000'")
	for range 4 {
		key, _, err := sessions.Start(t.Context(), tokens, unnamed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sessions.Get(t.Context(), tokens, key); err != nil {
			t.Errorf("the session: %v", err)
		}
		if who, err := sessions.End(t.Context(), tokens, key); err != nil || who.Name != "operator" {
			t.Errorf("%+v signed out, %v", who, err)
		}
	}
	if n := pgtest.Value[int](t, db, "select count(distinct subject)::int from audit_log where user_id is null and client_id is null"); n != 8 {
		t.Errorf("%d entries, want 8", n)
	}
}
