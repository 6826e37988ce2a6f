package main

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The bench writes by SQL what the service would have written.
func TestConnect(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	s := stage{conn: conn, oauth: oauth.New(db.Pool, credential.NewTestKeyring(), oauth.DefaultSettings)}
	if err := s.populate(t.Context()); err != nil {
		t.Fatal(err)
	}
	connected, err := s.connect(t.Context(), []pair{{1, firstReader}, {2, firstPair}})
	if err != nil || len(connected) != 2 || connected[1].RefreshToken == "" {
		t.Errorf("%d connections, %v", len(connected), err)
	}
}
