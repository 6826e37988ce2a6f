package partner

import (
	"net/http"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
)

// TestGetsChangeNothing: a read leaves the budget that it uses, and nothing else before it is answered.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	router, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	walk := edgetest.Walk{
		Handler: f.handler, Router: router, Pool: f.DB.Pool,
		Values: map[string]string{"grant_id": tokens.GrantID.String()}, Queries: map[string]string{},
		Writes: map[string]string{"* rate_limits": "the budget of reads; their places are released a moment later"},
		Ask:    func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokens.AccessToken) },
	}
	for _, dataset := range []string{"daily-activity", "cycling-daily", "cycling-activities"} {
		pattern := "/connect-svc/v1/grants/{grant_id}/" + dataset
		walk.Queries[pattern] = "from=2026-03-10&to=2026-03-10"
	}
	walk.ChangesNothing(t)
}
