package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/oauth2"

	"connect-svc/internal/foundation/scope"
)

// Private asks the private listener.
func (e *Service) Private(t *testing.T, target string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	e.App.PrivateHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+target, nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("%s answers %d", target, answer.Code)
	}
	return answer.Body.String()
}

// Connect goes all the way to the tokens of a connection.
func (e *Service) Connect(t *testing.T) (*oauth2.Config, *oauth2.Token) {
	t.Helper()
	config := &oauth2.Config{
		ClientID:     e.Partner.ID.String(),
		ClientSecret: e.Partner.Secret,
		RedirectURL:  e.Partner.CallbackURL,
		Scopes:       scope.All.Names(),
		Endpoint: oauth2.Endpoint{
			AuthURL: e.Base + "/oauth/authorize", TokenURL: e.Base + "/oauth/token", AuthStyle: oauth2.AuthStyleInHeader,
		},
	}
	verifier := oauth2.GenerateVerifier()
	callback := e.Authorize(t, config.AuthCodeURL(oauth2.GenerateVerifier(), oauth2.S256ChallengeOption(verifier)))
	token, err := config.Exchange(e.Client(t), callback.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal("exchange: ", CodeOf(err))
	}
	return config, token
}

// Client is a context in which package oauth2 trusts the service.
func (e *Service) Client(t *testing.T) context.Context {
	return context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: e.TLS})
}

// Read asks for the steps of the day of the consent and returns the status.
func (e *Service) Read(t *testing.T, token *oauth2.Token) int {
	t.Helper()
	day := token.Extra("history_from")
	answer := e.ask(t, token, fmt.Sprintf("daily-activity?from=%s&to=%s", day, day))
	_ = answer.Body.Close()
	return answer.StatusCode
}

// Get reads something of the grant that must be there.
func (e *Service) Get(t *testing.T, token *oauth2.Token, query string, into any) {
	t.Helper()
	answer := e.ask(t, token, query)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %d", query, answer.StatusCode)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func (e *Service) ask(t *testing.T, token *oauth2.Token, query string) *http.Response {
	t.Helper()
	answer, err := oauth2.NewClient(e.Client(t), oauth2.StaticTokenSource(token)).Get(
		fmt.Sprintf("%s/connect-svc/v1/grants/%s/%s", e.Base, token.Extra("grant_id"), query))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
