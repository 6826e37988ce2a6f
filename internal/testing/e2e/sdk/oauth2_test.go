package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/e2e"
)

// golang.org/x/oauth2 is the partner's client here, changed in nothing: it form-encodes its Basic credentials, speaks
// PKCE, and refreshes by itself. Every answer to it is held against the contract.
func TestUnmodifiedOAuth2Client(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	http1 := &http.Client{Transport: contracttest.Partner.Transport(t, e.TLS)}
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, http1)

	var metadata struct {
		Issuer   string `json:"issuer"`
		AuthURL  string `json:"authorization_endpoint"`
		TokenURL string `json:"token_endpoint"`
	}
	answer, err := http1.Get(e.Base + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(answer.Body).Decode(&metadata); err != nil || metadata.Issuer != e.Base {
		t.Fatalf("discovery: issuer %q, %v", metadata.Issuer, err)
	}
	config := oauth2.Config{
		ClientID:     e.Partner.ID.String(),
		ClientSecret: e.Partner.Secret,
		RedirectURL:  e.Partner.CallbackURL,
		Scopes:       scope.All.Names(),
		Endpoint:     oauth2.Endpoint{AuthURL: metadata.AuthURL, TokenURL: metadata.TokenURL},
	}
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	callback := e.Authorize(t, config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)))
	if callback.Get("state") != state {
		t.Error("the state came back changed")
	}
	token, err := config.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal("exchange: ", e2e.CodeOf(err))
	}
	grant, _ := token.Extra("grant_id").(string)
	if token.Type() != "Bearer" || token.RefreshToken == "" || grant == "" || token.Extra("scope") != scope.All.String() {
		t.Errorf("type %s, grant %q, scope %v", token.Type(), grant, token.Extra("scope"))
	}

	day := token.Extra("history_from").(string)
	read := func(source oauth2.TokenSource, want int) {
		t.Helper()
		answer, err := oauth2.NewClient(ctx, source).Get(fmt.Sprintf("%s/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", e.Base, grant, day, day))
		if err != nil {
			t.Fatal(e2e.CodeOf(err))
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a read answers %d, want %d", answer.StatusCode, want)
		}
	}
	read(oauth2.StaticTokenSource(token), http.StatusOK)

	e.DB.Clock.Advance(6 * time.Minute)
	read(oauth2.StaticTokenSource(token), http.StatusUnauthorized)
	expired := *token
	expired.Expiry = time.Now().Add(-time.Minute) // as the client sees it, whose clock is not shifted
	source := config.TokenSource(ctx, &expired)
	read(source, http.StatusOK)
	refreshed, err := source.Token()
	if err != nil || refreshed.RefreshToken == token.RefreshToken {
		t.Errorf("the refresh returned the old refresh token, or failed: %v", e2e.CodeOf(err))
	}

	// The used refresh token again: the family ends.
	_, err = config.TokenSource(ctx, &expired).Token()
	if got := e2e.CodeOf(err); got != "invalid_grant" {
		t.Errorf("a replay answers %s", got)
	}
	read(oauth2.StaticTokenSource(refreshed), http.StatusUnauthorized)

	config.ClientSecret += "x"
	_, err = config.TokenSource(ctx, &expired).Token()
	if got := e2e.CodeOf(err); got != "invalid_client" {
		t.Errorf("a wrong secret answers %s", got)
	}
}
