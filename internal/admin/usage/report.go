package usage

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
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
	report := newReport(client, since, until)
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

// Key returns the client's place in [Usage.Clients].
func (r Report) Key() page.Key { return page.Key{N: r.Total.Requests, ID: r.ClientID} }

// Clients returns at most limit reports after a key, of all clients if found is nil, and of found otherwise, those with most requests first. They have the figures of whole days (UTC) from the day of since on, as of the last fold, without operations and hours.
// It asks the database three times for any number of clients.
func (u *Usage) Clients(ctx context.Context, found []uuid.UUID, since time.Time, after page.Key, limit int) ([]Report, error) {
	since, until := u.span(since)
	since = since.Truncate(oneDay)
	if after.ID == uuid.Nil {
		after.N = math.MaxInt64
	}
	ranked, err := u.queries.RankClients(ctx, usagedb.RankClientsParams{
		Found: found, Since: since, AfterRequests: after.N, AfterID: after.ID, MaxRows: int32(limit), //nolint:gosec // a page
	})
	if err != nil {
		return nil, postgres.Wrap("usage: clients", err)
	}
	at, err := u.queries.CountedUntil(ctx)
	if err != nil {
		return nil, postgres.Wrap("usage: clients", err)
	}
	counted := at.UTC().Truncate(oneDay)
	ids := postgres.Map(ranked, func(row usagedb.RankClientsRow) uuid.UUID { return row.ClientID })
	rows, err := u.queries.ReadDays(ctx, usagedb.ReadDaysParams{ClientIds: ids, Since: earlier(since, counted)})
	if err != nil {
		return nil, postgres.Wrap("usage: clients", err)
	}
	reports, byID := make([]Report, len(ranked)), map[uuid.UUID]*Report{}
	for i, row := range ranked {
		reports[i] = newReport(usagedb.UsageClientRow{
			ClientID: row.ClientID, Name: row.Name, Status: row.Status, RequestsPerMinute: row.RequestsPerMinute,
		}, since, until)
		reports[i].Connections = Connections{Precision: Estimated, At: at}
		byID[row.ClientID] = &reports[i]
	}
	for key, day := range daysOf(rows) {
		report := byID[key.clientID]
		if !day.Day.Before(since) {
			report.Total.add(day.Figures())
			report.BusiestMinute = max(report.BusiestMinute, day.BusiestMinute)
		}
		if day.Day.Equal(counted) {
			report.Connections = day.connectionsAt(at)
		}
	}
	return reports, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func newReport(client usagedb.UsageClientRow, since, until time.Time) Report {
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
