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

// Without a client the usage of all is listed, and a report has each day. A search narrows lists of clients.
func TestUsageOfAll(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	walk := db.Client(t, func(c *pgtest.Client) { c.Name = "Walk \x1b[31mRewards" })
	ride := db.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	db.Exec(t, `insert into usage_days (client_id, day, metric, n)
		select client, (connect_now() at time zone 'UTC')::date - d, metric, n
		from generate_series(0, 2) d, (values ($1::uuid, 9, 1, 1), ($2, 4, 0, 1), ('00000000-0000-0000-0000-000000000000', 13, 1, 2)) c (client, requests, limited, active),
			lateral (values ('requests', requests), ('within_5ms', 9), ('rate_limited', limited), ('active_clients', active), ('authorized', 2), ('replayed', 1),
				('disconnected_by_user', 3), ('now_authorized', 5), ('codes_sent', 7)) figures (metric, n)`, ride.ID, walk.ID)
	db.Exec(t, "update usage_folds set counted_until = connect_now()")

	all := succeedJSON[[]operatorapi.ClientUsage](t, env(db), "", "usage", "--since", "1h")
	if len(all) != 2 || all[0].Name != "Ride Club" || all[0].Total.RateLimitedShare == 0 || all[1].Connections.Authorized != 5 {
		t.Errorf("%+v", all)
	}
	found := succeedJSON[[]operatorapi.ClientUsage](t, env(db), "", "usage", "--query", "rewards")
	if len(found) != 1 || found[0].ClientId != walk.ID {
		t.Errorf("a search finds %+v", found)
	}
	if list := succeedJSON[[]operatorapi.Client](t, env(db), "", "client", "list", "--query", "RIDE"); len(list) != 1 || list[0].ClientId != ride.ID {
		t.Errorf("a search finds %+v", list)
	}
	if text := succeed(t, env(db), "", "usage"); strings.Contains(text, "\x1b") || !strings.Contains(text, "Ride Club") {
		t.Errorf("the text is %q", text)
	}
	for status, args := range map[int][]string{
		statusUsage:  {"usage", "--query", "x", "--client", ride.ID.String()},
		statusFailed: {"report", "--client", "0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"},
	} {
		if got := call(t, env(db), "", args...); got.status != status {
			t.Errorf("%q: status %d, %s", args, got.status, got.stderr)
		}
	}

	report := succeedJSON[operatorapi.Report](t, env(db), "", "report", "--since", "2d")
	if report.ClientId != nil || len(report.Days) != 3 || report.Total.Requests.Requests != 39 || report.Total.Revoked.Replayed != 3 ||
		report.Total.Disconnected.ByUser != 9 || report.Total.ActiveClients != 2 || report.Total.Connections.Authorized != 5 {
		t.Errorf("%+v", report)
	}
	one := succeedJSON[operatorapi.Report](t, env(db), "", "report", "--client", ride.ID.String())
	if one.Name == nil || *one.Name != "Ride Club" || len(one.Days) != 31 || one.Total.Requests.Requests != 27 || one.Total.CodesSent != 21 {
		t.Errorf("%+v", one.Total)
	}
	text := succeed(t, env(db), "", "report", "--client", walk.ID.String(), "--since", "2d")
	for _, line := range []string{"Walk  [31mRewards", "0 by the client, 3 replayed, 0 by an operator", "12, 0 of them 429", "DAY (UTC)"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q lacks %q", text, line)
		}
	}
}
