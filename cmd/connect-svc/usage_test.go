package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client := db.Client(t)
	hour := time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)
	for _, row := range []struct {
		hours     int
		operation string
		status    int
		requests  int
	}{{0, "readDailyActivity", 200, 90}, {0, "readDailyActivity", 429, 10}, {-24, "requestToken", 200, 1}} {
		db.Exec(t, `insert into usage_hours (client_id, hour, operation, status, requests, durations)
			values ($1, $2, $3, $4, $5::bigint, array[0, 0, 0, $5::bigint])`,
			client.ID, hour.Add(time.Duration(row.hours)*time.Hour), row.operation, row.status, row.requests)
	}
	db.Exec(t, "insert into usage_minutes (client_id, minute, charged) values ($1, $2, 60), ($1, $2 + interval '1 minute', 30)", client.ID, hour)

	got := succeedJSON[operatorapi.Usage](t, env(db), "", "usage", "--client", client.ID.String())
	figures := operatorapi.Figures{Requests: 100, RateLimited: 10, RateLimitedShare: .1, P50Ms: 7.5, P99Ms: 10}
	operations := []operatorapi.OperationUsage{{Operation: "readDailyActivity", Figures: figures}}
	want := operatorapi.Usage{
		ClientId: client.ID, Name: "Example Partner", RequestsPerMinute: 600, PeakBudgetUsed: .1,
		Requests: 100, RateLimited: 10,
		Total:      figures,
		Operations: operations,
		Hours: []operatorapi.HourUsage{{
			Hour: hour.Format("2006-01-02T15:04:05.000Z"), Figures: figures, BusiestMinute: 60, Operations: operations,
		}},
		Connections: operatorapi.ConnectionCounts{Precision: "exact"},
	}
	varying := cmpopts.IgnoreFields(operatorapi.Usage{}, "Since", "Until", "BudgetUsed")
	close := cmpopts.EquateApprox(0, .11)
	if diff := cmp.Diff(want, got, varying, close); diff != "" {
		t.Error(diff)
	}
	if minutes := instantOf(t, &got.Until).Sub(instantOf(t, &got.Since)).Minutes(); got.BudgetUsed < 89/(600*minutes) || got.BudgetUsed > 91/(600*minutes) {
		t.Errorf("budget used %v over %v minutes", got.BudgetUsed, minutes)
	}
	longer := succeedJSON[operatorapi.Usage](t, env(db), "", "usage", "--client", client.ID.String(), "--since", "48h")
	if len(longer.Hours) != 2 || len(longer.Operations) != 2 || longer.Requests != 101 {
		t.Errorf("two days: %+v", longer)
	}
	text := succeed(t, env(db), "", "usage", "--client", client.ID.String(), "--since", hour.Format(time.RFC3339))
	for _, line := range []string{
		"connections  0 authorized, 0 lapsed, 0 revoked, 0 disconnected",
		"10.0 % in the busiest minute",
		"all                100       10   10.0 %     0          0    7.5 ms  10.0 ms",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	refuse(t, env(db), statusUsage, []string{"--since", "24h"}, "usage", "--client", client.ID.String(), "--since", "yesterday")
	refuse(t, env(db), statusFailed, []string{"no such client"}, "usage", "--client", db.User(t).ID.String())
}
