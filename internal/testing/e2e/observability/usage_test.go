package observability_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
)

// Requests are counted off the request path, and all counts are written when the service stops.
func TestUsageIsCounted(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	_, token := e.Connect(t)
	e.DB.Exec(t, "update clients set burst = 1, requests_per_minute = 1")
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := e.Read(t, token); got != want {
			t.Fatalf("a read answers %d, want %d", got, want)
		}
	}
	e.StopRequests()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	e.App.OAuth.Run(stopped)
	e.App.Usage.Run(stopped)

	report, err := e.App.Usage.Of(t.Context(), e.Partner.ID, e.DB.Clock.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(report.Operations))
	for i, operation := range report.Operations {
		names[i] = operation.Name
	}
	if want := []string{"readDailyActivity", "requestToken"}; !slices.Equal(names, want) {
		t.Errorf("operations %q, want %q", names, want)
	}
	if total := report.Total; total.Requests != 3 || total.RateLimited != 1 || total.Failed != 0 || report.Charged != 1 {
		t.Errorf("requests %+v, charged %d", total, report.Charged)
	}
	refused, err := e.App.Usage.Errors(t.Context(), e.Partner.ID, usage.ErrorFilter{}, page.Key{}, 100)
	if err != nil || len(refused) != 1 || !refused[0].Authenticated || refused[0].Operation != "readDailyActivity" ||
		refused[0].Code != "rate_limited" || refused[0].Reason != "more requests than the rate policy allows" {
		t.Errorf("errors %+v, %v", refused, err)
	}
	if ids := refused[0].RequestIDs; len(ids) != 1 || ids[0] == uuid.Nil {
		t.Errorf("the request's id is %v", ids)
	}
	if want := (usage.Connections{Authorized: 1}); report.Connections != want {
		t.Errorf("connections %+v", report.Connections)
	}
}

// The acts of callers are counted where they happen: by partner, and in all, where a user of two partners is one.
func TestDaysOfTheService(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	other := e.DB.Client(t)
	config, token := e.Connect(t)
	expired := *token
	expired.Expiry = time.Now().Add(-time.Hour)
	refreshed, err := config.TokenSource(e.Client(t), &expired).Token()
	if err != nil {
		t.Fatal(e2e.CodeOf(err))
	}
	tokens := edgetest.Connect(t, e.App.OAuth, other, scope.All, e.User.ID)
	elsewhere := (&oauth2.Token{AccessToken: tokens.AccessToken}).WithExtra(map[string]any{
		"grant_id": tokens.GrantID.String(), "history_from": tokens.HistoryFrom.Format(time.DateOnly),
	})
	for _, one := range []*oauth2.Token{refreshed, refreshed, elsewhere} {
		if status := e.Read(t, one); status != http.StatusOK {
			t.Fatalf("a read answers %d", status)
		}
	}
	days := func(client uuid.UUID) usage.Day {
		t.Helper()
		report, err := e.App.Usage.DaysOf(t.Context(), client, e.DB.Now())
		if err != nil || len(report.Days) != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		day := report.Days[0]
		if day.Figures().Quantile(1) == 0 {
			t.Error("no request took time")
		}
		day.ClientID, day.Day, day.Durations = uuid.Nil, time.Time{}, usage.Day{}.Durations
		return day
	}
	e.StopRequests()
	writeUsage(t, e)
	want := usage.Day{Refreshed: 1, ActiveUsers: 1, CodesSent: 1, CodesTried: 1, Requests: 4, BusiestMinute: 2, ActiveClients: 1, Authorized: 1, NowAuthorized: 1}
	if diff := cmp.Diff(want, days(e.Partner.ID)); diff != "" {
		t.Error("the partner:", diff)
	}
	want.Requests, want.ActiveClients, want.Authorized, want.NowAuthorized = 5, 2, 2, 2
	if diff := cmp.Diff(want, days(uuid.Nil)); diff != "" {
		t.Error("all:", diff)
	}
	want = usage.Day{ActiveUsers: 1, Requests: 1, BusiestMinute: 1, ActiveClients: 1, Authorized: 1, NowAuthorized: 1}
	if diff := cmp.Diff(want, days(other.ID)); diff != "" {
		t.Error("the other partner:", diff)
	}
}

// writeUsage writes what was counted, as the service does when it stops, and brings the days up to date.
func writeUsage(t *testing.T, e *e2e.Service) {
	t.Helper()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	e.App.OAuth.Run(stopped)
	e.App.Usage.Run(stopped)
	if err := e.App.Usage.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
}
