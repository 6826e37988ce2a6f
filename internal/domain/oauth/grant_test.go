package oauth

import (
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
)

// A grant's id looks random, is another one for each client, and leads back to its user with the keys alone.
func TestGrantOf(t *testing.T) {
	t.Parallel()
	s, other := &Server{keys: credential.NewTestKeyring()}, &Server{keys: credential.NewTestKeyring()}
	user, client, another := uuid.New(), uuid.New(), uuid.New()
	seen := map[uuid.UUID]bool{user: true}
	for _, of := range []struct {
		server *Server
		client uuid.UUID
	}{{s, client}, {s, another}, {other, client}} {
		grant, ok := of.server.grantOf(user, of.client)
		if !ok || grant.Version() != 4 || grant.Variant() != uuid.RFC4122 || seen[grant] {
			t.Errorf("the grant is %s, %t", grant, ok)
		}
		seen[grant] = true
		if got, ok := of.server.userOf(grant, of.client); !ok || got != user {
			t.Errorf("its user is %s, %t, want %s", got, ok, user)
		}
		if again, _ := of.server.grantOf(user, of.client); again != grant {
			t.Errorf("again: %s, want %s", again, grant)
		}
	}
	if got, _ := s.userOf(uuid.New(), client); got == user {
		t.Error("a random grant is the user's")
	}
	if grant, ok := s.grantOf(uuid.MustParse("00000000-0000-0000-0000-000000000001"), client); ok {
		t.Errorf("an id of another form has the grant %s", grant)
	}
}

// A disconnect finds a derived grant without its row in the directory, as if that row's node were away.
func TestGrantOfIsFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	if grant, _ := f.grantOf(f.user, f.client.ID); grant != tokens.GrantID {
		t.Errorf("the grant is %s, want %s", tokens.GrantID, grant)
	}
	credentials := f.as(f.client.ID)
	if found, err := f.findDerived(t.Context(), credentials, tokens.GrantID); err != nil || found == nil || *found != f.user {
		t.Errorf("its user is %v, %v", found, err)
	}
	credentials.SecretHash[0]++
	if found, err := f.findDerived(t.Context(), credentials, tokens.GrantID); err == nil {
		t.Errorf("with a wrong secret: %v", found)
	}
	random := uuid.New()
	f.db.Exec(t, "update connections set grant_id = $1", random) // as an older program made it
	for _, grant := range []uuid.UUID{random, tokens.GrantID} {
		if found, err := f.findDerived(t.Context(), f.as(f.client.ID), grant); err == nil {
			t.Errorf("a grant that is not derived belongs to %v", found)
		}
	}
}

// If the node is away that would have the row of a derived grant, a connection has a random one.
func TestGrantElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	derived, _ := f.grantOf(f.user, f.client.ID)
	f.db.Away(t, "grant_directory", "new.grant_id = '"+derived.String()+"'")
	tokens := f.connect(t, scope.All)
	if tokens.GrantID == derived {
		t.Error("the grant is derived")
	}
	f.works(t, tokens)
	if err := f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
		t.Error(err)
	}
	f.dead(t, tokens)
}
