package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
)

// Of returns the report of [Usage.Requests] with the client's connections, which take longer to count. Errors:
// refusal.ErrClientNotFound.
func (u *Usage) Of(ctx context.Context, clientID uuid.UUID, since time.Time) (Report, error) {
	report, err := u.Requests(ctx, clientID, since)
	if err != nil {
		return Report{}, err
	}
	report.Connections, err = u.Connections(ctx, clientID)
	return report, err
}

// Requests returns the report of one client since the hour of since, without connections. Errors: refusal.ErrClientNotFound.
func (u *Usage) Requests(ctx context.Context, clientID uuid.UUID, since time.Time) (Report, error) {
	since, until := u.span(since)
	client, err := u.queries.UsageClient(ctx, clientID)
	if err != nil {
		return Report{}, postgres.WrapNoRows("usage: client", err, refusal.ErrClientNotFound)
	}
	report := newReport(usagedb.UsageClientsRow(client), since, until)
	for hour := since; hour.Before(until); hour = hour.Add(time.Hour) {
		report.Hours = append(report.Hours, Hour{Start: hour})
	}
	counted, err := u.queries.UsageByHour(ctx, usagedb.UsageByHourParams{Since: since, ClientID: clientID})
	if err != nil {
		return Report{}, fmt.Errorf("usage: report: %w", err)
	}
	for _, row := range counted {
		report.count(row)
	}
	budgets, err := u.queries.BudgetByHour(ctx, usagedb.BudgetByHourParams{Since: since, ClientID: clientID})
	for _, row := range budgets {
		report.spend(row)
	}
	return report, postgres.Wrap("usage: report", err)
}

// Overview returns reports of all clients, oldest client first, for a page that shows all at once: totals only, without operations and
// hours, and connections that are counted less exactly.
func (u *Usage) Overview(ctx context.Context, since time.Time) ([]Report, error) {
	since, until := u.span(since)
	clients, err := u.queries.UsageClients(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage: overview: %w", err)
	}
	reports, byID := make([]Report, len(clients)), map[uuid.UUID]*Report{}
	for i, row := range clients {
		reports[i] = newReport(row, since, until)
		byID[row.ClientID] = &reports[i]
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
	connections, err := u.countConnections(ctx, postgres.Map(reports, func(r Report) uuid.UUID { return r.ClientID }), u.overview)
	for i := range reports {
		reports[i].Connections = connections[reports[i].ClientID]
	}
	return reports, postgres.Wrap("usage: overview", err)
}

// newReport returns a report without figures.
func newReport(client usagedb.UsageClientsRow, since, until time.Time) Report {
	return Report{
		ClientID: client.ClientID, Name: client.Name, Status: client.Status, RequestsPerMinute: int(client.RequestsPerMinute),
		Since: since, Until: until,
	}
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
func (r *Report) hourOf(hour time.Time) (index int, within bool) {
	index = int(hour.Sub(r.Since) / time.Hour)
	return index, index >= 0 && index < len(r.Hours)
}

// count adds a row. Rows come in the order of their operations.
func (r *Report) count(row usagedb.UsageByHourRow) {
	hour, within := r.hourOf(row.Hour)
	if !within {
		return
	}
	if n := len(r.Operations); n == 0 || r.Operations[n-1].Name != row.Operation {
		r.Operations = append(r.Operations, Operation{Name: row.Operation, Hours: make([]Figures, len(r.Hours))})
	}
	operation := &r.Operations[len(r.Operations)-1]
	for _, figures := range []*Figures{&r.Total, &r.Hours[hour].Figures, &operation.Total, &operation.Hours[hour]} {
		for i, n := range row.Durations {
			figures.count(int(row.Status), i, n)
		}
	}
}

func (r *Report) spend(row usagedb.BudgetByHourRow) {
	if hour, within := r.hourOf(row.Hour); within {
		r.Hours[hour].Charged, r.Hours[hour].BusiestMinute = row.Charged, row.BusiestMinute
		r.Charged += row.Charged
		r.BusiestMinute = max(r.BusiestMinute, row.BusiestMinute)
	}
}
