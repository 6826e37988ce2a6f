package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
)

// Overview is [Usage.All] for a page that shows all clients at once: totals only, without operations and hours, and connections that
// are counted less exactly.
func (u *Usage) Overview(ctx context.Context, since time.Time) ([]Report, error) {
	since, until := u.span(since)
	reports, byID, err := u.newReports(ctx, uuid.Nil, since, until)
	if err != nil {
		return nil, fmt.Errorf("usage: overview: %w", err)
	}
	counted, err := u.queries.UsageByClient(ctx, since)
	if err != nil {
		return nil, fmt.Errorf("usage: overview: %w", err)
	}
	for _, row := range counted {
		if report := byID[row.ClientID]; report != nil {
			rest := row.Requests
			for bucket, n := range row.Durations {
				report.Total.count(int(row.Status), bucket, n)
				rest -= n
			}
			report.Total.count(int(row.Status), len(row.Durations), rest) // in buckets that only a newer server has
		}
	}
	budgets, err := u.queries.BudgetByClient(ctx, since)
	if err != nil {
		return nil, fmt.Errorf("usage: overview: %w", err)
	}
	for _, row := range budgets {
		if report := byID[row.ClientID]; report != nil {
			report.Charged, report.BusiestMinute = row.Charged, row.BusiestMinute
		}
	}
	for i := range reports {
		reports[i].Hours = nil
	}
	return reports, postgres.Wrap("usage: overview", u.countConnections(ctx, reports, u.overview))
}
