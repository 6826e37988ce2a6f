package usage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
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
		if hour, within := report.hourOf(row.Hour); within {
			report.Hours[hour].Charged, report.Hours[hour].BusiestMinute = row.Charged, row.BusiestMinute
			report.Charged += row.Charged
			report.BusiestMinute = max(report.BusiestMinute, row.BusiestMinute)
		}
	}
	return report, postgres.Wrap("usage: report", err)
}

// Key returns the client's place in [Usage.Clients].
func (r Report) Key() page.Key { return page.Key{N: r.ranked, ID: r.ClientID} }

// Order is an order of [Usage.Clients]. The zero value is that of most requests.
type Order string

// The orders: by most answers 5xx and webhooks that were given up, by most answers 429, or by name.
const (
	byFailures Order = "failures"
	byLimited  Order = "limited"
	byName     Order = "name"
)

var rankedBy = map[Order][]string{"": {"requests"}, byFailures: {"failed", "webhooks_failed"}, byLimited: {"rate_limited"}, byName: {}}

// IsValid reports whether there is such an order.
func (o Order) IsValid() bool { return rankedBy[o] != nil }

// Ranking says which clients [Usage.Clients] returns, and in which order.
type Ranking struct {
	Found   []uuid.UUID // only these; nil: all
	Order   Order
	Failing bool // only those with answers 5xx or webhooks that were given up
}

// Clients returns at most limit reports after a key.
// They have the figures of whole days (UTC) from the day of since on, as of the last fold, without operations and hours. It asks the database
// three times for any number of clients.
func (u *Usage) Clients(ctx context.Context, ranking Ranking, since time.Time, after page.Key, limit int) ([]Report, error) {
	since, until := u.span(since)
	since = since.Truncate(oneDay)
	if after.ID == uuid.Nil {
		after.N = math.MaxInt64
	}
	asked := rankedBy[ranking.Order]
	if ranking.Failing {
		asked = slices.Concat(asked, rankedBy[byFailures])
	}
	ranked, err := u.queries.RankClients(ctx, usagedb.RankClientsParams{
		Found: ranking.Found, OnlyFailing: ranking.Failing, ByName: ranking.Order == byName, Metrics: rankedBy[ranking.Order], Asked: asked,
		Since: since, AfterRanked: after.N, AfterID: after.ID, MaxRows: int32(limit), //nolint:gosec // a page
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
	first := slices.MinFunc([]time.Time{since, counted}, time.Time.Compare)
	rows, err := u.queries.ReadDays(ctx, usagedb.ReadDaysParams{ClientIds: ids, Since: first})
	if err != nil {
		return nil, postgres.Wrap("usage: clients", err)
	}
	reports, byID := make([]Report, len(ranked)), map[uuid.UUID]*Report{}
	for i, row := range ranked {
		reports[i] = newReport(usagedb.UsageClientRow{
			ClientID: row.ClientID, Name: row.Name, Status: row.Status, RequestsPerMinute: row.RequestsPerMinute,
		}, since, until)
		reports[i].ranked = row.Ranked
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
			report.Connections = day.Connections()
			report.Connections.At = at
		}
	}
	return reports, nil
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
	if earliest := until.Add(-retention); since.Before(earliest) {
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

// Days is what happened since a day, to one client or in all.
type Days struct {
	ClientID     uuid.UUID // uuid.Nil: all
	Name, Status string    // of the client

	// Total has the sums of the days, the connections of the last one, and of users and clients those of the day with most: on how many
	// days each was active is not known.
	Total Day
	Days  []Day // each day from the first one on, until today
}

// DaysOf returns what happened to a client since a day (UTC); uuid.Nil: in all. The figures of today are up to some minutes old. Error:
// refusal.ErrClientNotFound.
func (u *Usage) DaysOf(ctx context.Context, clientID uuid.UUID, since time.Time) (Days, error) {
	report := Days{ClientID: clientID}
	if clientID != everyone {
		client, err := u.queries.UsageClient(ctx, clientID)
		if err != nil {
			return Days{}, postgres.WrapNoRows("usage: client", err, refusal.ErrClientNotFound)
		}
		report.Name, report.Status = client.Name, client.Status
	}
	today := u.now().UTC().Truncate(oneDay)
	since = slices.MinFunc([]time.Time{since.UTC().Truncate(oneDay), today}, time.Time.Compare)
	if earliest := today.AddDate(0, 0, -daysKept); since.Before(earliest) {
		since = earliest
	}
	rows, err := u.queries.ReadDays(ctx, usagedb.ReadDaysParams{ClientIds: []uuid.UUID{clientID}, Since: since})
	if err != nil {
		return Days{}, postgres.Wrap("usage: days", err)
	}
	byDay := daysOf(rows)
	for day := since; !day.After(today); day = day.Add(oneDay) {
		figures, before := *byDay.of(clientID, day), report.Total
		report.Days = append(report.Days, figures)
		report.Total.add(figures)
		report.Total.ActiveUsers = max(before.ActiveUsers, figures.ActiveUsers)
		report.Total.ActiveClients = max(before.ActiveClients, figures.ActiveClients)
		if figures.Connections().Sum() > 0 { // before the first count of a day it has none
			before = figures
		}
		report.Total.NowAuthorized, report.Total.NowLapsed = before.NowAuthorized, before.NowLapsed
		report.Total.NowRevoked, report.Total.NowDisconnected = before.NowRevoked, before.NowDisconnected
	}
	return report, nil
}

// Figures returns the requests of the day.
func (d Day) Figures() Figures {
	f := Figures{d.Requests, d.RateLimited, d.Refused, d.Failed, d.Durations}
	rest := d.Requests
	for _, n := range d.Durations {
		rest -= n
	}
	f.durations[len(f.durations)-1] += max(rest, 0) // in buckets that only a newer server has
	return f
}

// InNeed is a client for which something went wrong on a day. The day has only the figures that tell.
type InNeed struct {
	Day
	Name, Status string
}

// InNeed returns at most limit clients for which something goes wrong today that a person may have to look at, the worst first: webhooks that
// were given up, used refresh tokens, answers 5xx, or a twentieth of the requests over the rate.
func (u *Usage) InNeed(ctx context.Context, limit int) ([]InNeed, error) {
	rows, err := u.queries.ClientsInNeed(ctx, usagedb.ClientsInNeedParams{
		Day: u.now().UTC().Truncate(oneDay), MaxRows: int32(limit), //nolint:gosec // a page
	})
	return postgres.Map(rows, func(row usagedb.ClientsInNeedRow) InNeed {
		return InNeed{Day{
			ClientID: row.ClientID, WebhooksFailed: row.WebhooksFailed, Replayed: row.Replayed, Failed: row.Failed,
			RateLimited: row.RateLimited, Requests: row.Requests,
		}, row.Name, row.Status}
	}), postgres.Wrap("usage: clients in need", err)
}

// Revocations returns the number of revoked connections.
func (d Day) Revocations() int64 { return d.Revoked + d.Replayed + d.RevokedByOperator }

// Disconnects returns the number of disconnected connections.
func (d Day) Disconnects() int64 {
	return d.DisconnectedByUser + d.DisconnectedByClient + d.DisconnectedByOperator + d.DisconnectedWithAccount + d.DisconnectedWithClient
}

// Report is the usage of one client since the start of an hour.
type Report struct {
	ClientID          uuid.UUID
	Name, Status      string
	RequestsPerMinute int // of its present rate policy

	Since, Until time.Time // Since is a whole hour

	Total         Figures
	Operations    []Operation // the requested ones, sorted by name
	Hours         []Hour      // every hour from Since on; the last one has not ended
	Charged       int64       // requests that the limiter charged to the budget
	BusiestMinute int64       // the most of them in one minute
	Connections   Connections // at present
	ranked        int64       // what [Usage.Clients] ranks it by
}

// Operation is one operation in a report.
type Operation struct {
	Name  string
	Total Figures
	Hours []Figures // as many as the report has
}

// Hour is one hour of a report.
type Hour struct {
	Start time.Time
	Figures
	Charged, BusiestMinute int64
}

// Figures are counted requests.
type Figures struct {
	Requests    int64
	RateLimited int64 // status 429
	Refused     int64 // another 4xx
	Failed      int64 // 5xx
	durations   durations
}

// count adds buckets beyond the last one to the last one: a newer server on the same database may have more buckets.
func (f *Figures) count(status, bucket int, requests int64) {
	f.Requests += requests
	f.durations[min(bucket, len(f.durations)-1)] += requests
	switch {
	case status == 429:
		f.RateLimited += requests
	case status >= 500:
		f.Failed += requests
	case status >= 400:
		f.Refused += requests
	}
}

func (f *Figures) add(other Figures) {
	f.Requests += other.Requests
	f.RateLimited += other.RateLimited
	f.Refused += other.Refused
	f.Failed += other.Failed
	for i, n := range other.durations {
		f.durations[i] += n
	}
}

// RateLimitedShare returns the share of requests with status 429, 0 to 1.
func (f Figures) RateLimitedShare() float64 { return share(f.RateLimited, f.Requests) }

// Quantile estimates the q-quantile of the durations, 0 < q <= 1, by linear interpolation within a bucket. It is 0 without
// requests, and at most 10 s: longer durations are in one bucket.
func (f Figures) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(f.Requests)))
	var below int64
	lower := time.Duration(0)
	for i, n := range f.durations {
		if i == len(bounds) || rank == 0 {
			break
		}
		if below+n >= rank {
			return lower + time.Duration(float64(bounds[i]-lower)*float64(rank-below)/float64(n))
		}
		below, lower = below+n, bounds[i]
	}
	return lower
}

// BudgetUsed returns the used share of the budget: 0 to 1, or a little more after a burst, which exceeds the rate.
func (r Report) BudgetUsed() float64 {
	return float64(r.Charged) / (float64(r.RequestsPerMinute) * max(r.Until.Sub(r.Since).Minutes(), 1))
}

// PeakBudgetUsed returns the used share of the budget in the busiest minute.
func (r Report) PeakBudgetUsed() float64 { return share(r.BusiestMinute, int64(r.RequestsPerMinute)) }

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
