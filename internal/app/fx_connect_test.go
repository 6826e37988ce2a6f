package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/oauth2"

	"connect-svc/internal/scope"
)

// private asks the private listener.
func (e *endToEnd) private(t *testing.T, target string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	e.app.PrivateHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+target, nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("%s answers %d", target, answer.Code)
	}
	return answer.Body.String()
}

// connect goes all the way to the tokens of a connection.
func (e *endToEnd) connect(t *testing.T) (*oauth2.Config, *oauth2.Token) {
	t.Helper()
	config := &oauth2.Config{
		ClientID:     e.partner.ID.String(),
		ClientSecret: e.partner.Secret,
		RedirectURL:  e.partner.CallbackURL,
		Scopes:       scope.All.Names(),
		Endpoint: oauth2.Endpoint{
			AuthURL: e.base + "/oauth/authorize", TokenURL: e.base + "/oauth/token", AuthStyle: oauth2.AuthStyleInHeader,
		},
	}
	verifier := oauth2.GenerateVerifier()
	callback := e.authorize(t, config.AuthCodeURL(oauth2.GenerateVerifier(), oauth2.S256ChallengeOption(verifier)))
	token, err := config.Exchange(e.client(t), callback.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal("exchange: ", codeOf(err))
	}
	return config, token
}

// client is a context in which package oauth2 trusts the service.
func (e *endToEnd) client(t *testing.T) context.Context {
	return context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: e.tls})
}

// read asks for the steps of the day of the consent and returns the status.
func (e *endToEnd) read(t *testing.T, token *oauth2.Token) int {
	t.Helper()
	day := token.Extra("history_from")
	answer, err := oauth2.NewClient(e.client(t), oauth2.StaticTokenSource(token)).Get(
		fmt.Sprintf("%s/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", e.base, token.Extra("grant_id"), day, day))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
