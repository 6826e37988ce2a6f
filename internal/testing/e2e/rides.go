package e2e

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"connect-svc/internal/domain/activity"
)

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
