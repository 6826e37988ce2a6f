package observability_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"connect-svc/internal/page"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/usage"
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
	refused, err := e.App.Usage.Errors(t.Context(), e.Partner.ID, page.Key{}, 100)
	if err != nil || len(refused) != 1 || !refused[0].Authenticated || refused[0].Operation != "readDailyActivity" ||
		refused[0].Code != "rate_limited" || refused[0].Reason != "more requests than the rate policy allows" {
		t.Errorf("errors %+v, %v", refused, err)
	}
	if want := (usage.Connections{Authorized: 1}); report.Connections != want {
		t.Errorf("connections %+v", report.Connections)
	}
}
