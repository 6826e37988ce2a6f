package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
)

// Of returns the report of one client since the hour of since. Errors: refusal.ErrClientNotFound.
func (u *Usage) Of(ctx context.Context, clientID uuid.UUID, since time.Time) (Report, error) {
	return u.of(ctx, clientID, since, u.bounds)
}

// Requests returns the report of [Usage.Of] without connections, which take longer to count. Errors: refusal.ErrClientNotFound.
func (u *Usage) Requests(ctx context.Context, clientID uuid.UUID, since time.Time) (Report, error) {
	return u.of(ctx, clientID, since, countBounds{})
}

func (u *Usage) of(ctx context.Context, clientID uuid.UUID, since time.Time, bounds countBounds) (Report, error) {
	reports, err := u.reports(ctx, clientID, since, bounds)
	if err != nil {
		return Report{}, err
	}
	if clientID == uuid.Nil || len(reports) == 0 {
		return Report{}, refusal.ErrClientNotFound
	}
	return reports[0], nil
}

// All returns the reports of all clients since the hour of since, oldest client first.
func (u *Usage) All(ctx context.Context, since time.Time) ([]Report, error) {
	return u.reports(ctx, uuid.Nil, since, u.bounds)
}

// reports returns the reports of all clients, or of one, since an hour.
func (u *Usage) reports(ctx context.Context, clientID uuid.UUID, since time.Time, bounds countBounds) ([]Report, error) {
	since, until := u.span(since)
	every := clientID == uuid.Nil
	reports, byID, err := u.newReports(ctx, clientID, since, until)
	if err != nil {
		return nil, fmt.Errorf("usage: report: %w", err)
	}
	counted, err := u.queries.UsageByHour(ctx, usagedb.UsageByHourParams{Since: since, ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, fmt.Errorf("usage: report: %w", err)
	}
	for _, row := range counted {
		if report := byID[row.ClientID]; report != nil {
			report.count(row)
		}
	}
	budgets, err := u.queries.BudgetByHour(ctx, usagedb.BudgetByHourParams{Since: since, ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, fmt.Errorf("usage: report: %w", err)
	}
	for _, row := range budgets {
		if report := byID[row.ClientID]; report != nil {
			report.spend(row)
		}
	}
	for _, report := range reports {
		slices.SortFunc(report.Operations, func(a, b Operation) int { return cmp.Compare(a.Name, b.Name) })
	}
	return reports, postgres.Wrap("usage: report", u.countConnections(ctx, reports, bounds))
}

// newReports returns reports without figures, of all clients or of one, as a list and by client.
func (u *Usage) newReports(
	ctx context.Context, clientID uuid.UUID, since, until time.Time,
) (reports []Report, byID map[uuid.UUID]*Report, err error) {
	clients, err := u.queries.UsageClients(ctx, usagedb.UsageClientsParams{ClientID: clientID, EveryClient: clientID == uuid.Nil})
	reports, byID = make([]Report, len(clients)), map[uuid.UUID]*Report{}
	for i, row := range clients {
		reports[i] = Report{
			ClientID: row.ClientID, Name: row.Name, Status: row.Status, RequestsPerMinute: int(row.RequestsPerMinute),
			Since: since, Until: until,
		}
		for hour := since; hour.Before(until); hour = hour.Add(time.Hour) {
			reports[i].Hours = append(reports[i].Hours, Hour{Start: hour})
		}
		byID[row.ClientID] = &reports[i]
	}
	return reports, byID, err
}

// span returns the time of a report, from a whole hour until now. It begins within the retention.
func (u *Usage) span(since time.Time) (from, until time.Time) {
	until = u.now().UTC()
	if earliest := until.Add(-Retention); since.Before(earliest) {
		since = earliest
	}
	return since.UTC().Truncate(time.Hour), until
}

// hourOf returns the index of an hour. within is false for an hour in the future, because the clocks of servers differ a little.
func (r *Report) hourOf(hour time.Time) (int, bool) {
	index := int(hour.Sub(r.Since) / time.Hour)
	return index, index >= 0 && index < len(r.Hours)
}

func (r *Report) count(row usagedb.UsageByHourRow) {
	hour, within := r.hourOf(row.Hour)
	if !within {
		return
	}
	operation := slices.IndexFunc(r.Operations, func(o Operation) bool { return o.Name == row.Operation })
	if operation < 0 {
		operation = len(r.Operations)
		r.Operations = append(r.Operations, Operation{Name: row.Operation, Hours: make([]Figures, len(r.Hours))})
	}
	found := &r.Operations[operation]
	for _, figures := range []*Figures{&r.Total, &r.Hours[hour].Figures, &found.Total, &found.Hours[hour]} {
		for i, n := range row.Durations {
			figures.count(int(row.Status), i, n)
		}
	}
}

func (r *Report) spend(row usagedb.BudgetByHourRow) {
	if hour, within := r.hourOf(row.Hour); within {
		r.Hours[hour].Charged = row.Charged
		r.Hours[hour].BusiestMinute = row.BusiestMinute
		r.Charged += row.Charged
		r.BusiestMinute = max(r.BusiestMinute, row.BusiestMinute)
	}
}
