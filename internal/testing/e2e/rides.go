package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"connect-svc/internal/activity"
)

// Get reads something of the grant that must be there.
func (e *Service) Get(t *testing.T, token *oauth2.Token, query string, into any) {
	t.Helper()
	answer, err := oauth2.NewClient(e.Client(t), oauth2.StaticTokenSource(token)).Get(
		fmt.Sprintf("%s/connect-svc/v1/grants/%s/%s", e.Base, token.Extra("grant_id"), query))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %d", query, answer.StatusCode)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
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
