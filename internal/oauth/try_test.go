package oauth

import (
	"errors"
	"testing"

	"connect-svc/internal/credential"
	"connect-svc/internal/scope"
)

// An act that authenticates the client by the way does nothing for a wrong secret or a disabled client, and what it was
// asked for works all the same afterwards (decisions, section 2).
func TestActsAuthenticateTheClient_5_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	created, secret, err := f.registry.Create(t.Context(), f.client.Registration)
	if err != nil {
		t.Fatal(err)
	}
	f.client = created
	right, wrong := credential.Hash(secret), credential.Hash(secret+"x")
	params := ExchangeParams{Code: f.code(t, scope.All), RedirectURI: callback, CodeVerifier: verifier}
	if _, err := f.TryExchange(t.Context(), created.ID, wrong, params); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("exchange with a wrong secret: %v", err)
	}
	tokens, err := f.TryExchange(t.Context(), created.ID, right, params)
	if err != nil {
		t.Fatalf("exchange: %v", err)
	}
	if _, err := f.TryRefresh(t.Context(), created.ID, wrong, tokens.RefreshToken); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("refresh with a wrong secret: %v", err)
	}
	next, err := f.TryRefresh(t.Context(), created.ID, right, tokens.RefreshToken)
	if err != nil {
		t.Fatalf("refresh: %v", err)
	}
	// A used token revokes nothing before the client is known.
	if _, err := f.TryRefresh(t.Context(), created.ID, right, tokens.RefreshToken); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("replay: %v", err)
	}
	if _, err := f.Authenticate(t.Context(), next.AccessToken); err != nil {
		t.Errorf("after a replay by nobody: %v", err)
	}
	for _, token := range []string{next.AccessToken, next.RefreshToken} {
		if done, err := f.TryRevoke(t.Context(), created.ID, wrong, token); done || err != nil {
			t.Errorf("revocation with a wrong secret: %t, %v", done, err)
		}
	}
	if err := f.registry.Disable(t.Context(), created.ID); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{next.AccessToken, next.RefreshToken} {
		if done, err := f.TryRevoke(t.Context(), created.ID, right, token); done || err != nil {
			t.Errorf("revocation by a disabled client: %t, %v", done, err)
		}
	}
	if err := f.registry.Enable(t.Context(), created.ID); err != nil {
		t.Fatal(err)
	}
	if done, err := f.TryRevoke(t.Context(), created.ID, right, next.AccessToken); !done || err != nil {
		t.Errorf("revocation of the access token: %t, %v", done, err)
	}
	if done, err := f.TryRevoke(t.Context(), created.ID, right, next.RefreshToken); !done || err != nil {
		t.Errorf("revocation of the refresh token: %t, %v", done, err)
	}
}
