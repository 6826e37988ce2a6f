//go:build citus

package owners

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/migrations"
)

// between are the statements that Citus refuses between two steps, after each of these tables was placed. Requests that need them are sent
// again, webhooks wait, and ReplayActs is for the operator, after a restore.
var between = map[string][]string{
	"account.HasHiddenSession":   {"account_sessions"},
	"oauth.AuthorizeConnection":  {"connections"},
	"oauth.RefuseExchange":       {"connections"},
	"webhook.ClaimWebhookEvents": {"clients", "webhook_changes", "webhook_attempts", "webhook_events", "webhook_endpoints"},
	"webhook.FailWebhookEvent":   {"webhook_endpoints"},
	"activity.ReadDailySteps":    {"daily_steps"},
}

// Every other generated statement works between any two steps of the distribution.
func TestStatementsBetweenStepsOnACluster(t *testing.T) {
	db := pgtest.NewCluster(t, true)
	conn, err := pgx.Connect(t.Context(), db.URLs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	all := statements(t)
	names := slices.Sorted(maps.Keys(all))
	placed := migrations.Tables()
	tried := 0 // a step concerns the statements that name its table
	if err := citus.Distribute(t.Context(), db.URLs[0], 4, func(step string, _ time.Duration) {
		table, _, _ := strings.Cut(step, ":")
		if !slices.Contains(placed, table) {
			return
		}
		for _, name := range names {
			if !strings.Contains(all[name], table) || name == "oauth.ReplayActs" || slices.Contains(between[name], table) {
				continue
			}
			tried++
			if _, err := try(t.Context(), conn, all[name]); err != nil {
				t.Errorf("after %q: %s: %v", step, name, err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if tried < 250 {
		t.Errorf("%d statements of tables just placed", tried)
	}
}
