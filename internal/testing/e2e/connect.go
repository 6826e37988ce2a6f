package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"
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

type ridesPage struct {
	Data []struct {
		ID string `json:"id"`
	}
	Meta struct {
		NextCursor string `json:"next_cursor"`
	}
}

// Rides reads one page of the day's rides.
func (e *Service) Rides(t *testing.T, token *oauth2.Token, limit int, cursor string) (page ridesPage) {
	t.Helper()
	day := token.Extra("history_from")
	query := fmt.Sprintf("cycling-activities?from=%s&to=%s&limit=%d", day, day, limit)
	if cursor != "" {
		query += "&cursor=" + cursor
	}
	e.Get(t, token, query, &page)
	return page
}

// RecordRides writes rides of the day.
func (e *Service) RecordRides(t *testing.T, token *oauth2.Token, n int) {
	t.Helper()
	day, err := time.Parse(time.DateOnly, token.Extra("history_from").(string))
	if err != nil {
		t.Fatal(err)
	}
	var rides []activity.RideRecord
	for i := range n {
		start := day.Add(time.Duration(i) * time.Second)
		rides = append(rides, activity.RideRecord{UserID: e.User.ID, SourceID: start.String(), Start: start, DistanceMeters: 1})
	}
	if _, err := e.App.Activity.Put(t.Context(), activity.Batch{CyclingActivities: rides}); err != nil {
		t.Fatal(err)
	}
}

// NewConnection is a new user's connection with a client.
func (e *Service) NewConnection(t *testing.T, partner pgtest.Client) (pgtest.User, oauth.Tokens) {
	t.Helper()
	user := e.DB.User(t)
	return user, edgetest.Connect(t, e.App.OAuth, partner, scope.All, user.ID)
}

// Hold takes a lock by a session of the test's own, until it is freed or the test ends.
func (e *Service) Hold(t *testing.T, lock string, args ...any) (free func()) {
	t.Helper()
	session, err := pgx.Connect(t.Context(), e.DB.URL)
	if err != nil {
		t.Fatal(err)
	}
	free = func() { _ = session.Close(context.Background()) } // a second time it does nothing
	t.Cleanup(free)
	if _, err := session.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Exec(t.Context(), lock, args...); err != nil {
		t.Fatal(err)
	}
	return free
}

// HoldConnection holds the connection of a grant.
func (e *Service) HoldConnection(t *testing.T, grant uuid.UUID) (free func()) {
	t.Helper()
	user := pgtest.Value[uuid.UUID](t, e.DB, "select user_id from grant_directory where grant_id = $1", grant)
	return e.Hold(t, "select 1 from connections where user_id = $1 for update", user)
}
