package usage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
	"connect-svc/internal/timelimit"
)

// store is this package's access to the database. Each method of Usage in this file that writes is one atomic act.
type store struct {
	pool             *postgres.Pool
	queries          *usagedb.Queries
	bounds, overview countBounds
}

func newStore(pool *postgres.Pool, limits timelimit.Limits) store {
	return store{pool, usagedb.New(pool), clientBounds(limits), overviewBounds(limits)}
}

// write adds all rows or none. It sorts them, so that servers that write concurrently cannot deadlock.
func (u *Usage) write(ctx context.Context, rows map[rowKey]*row) error {
	hours, charged := inHours(rows), inMinutes(rows)
	return postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		var failure error
		note := func(_ int, err error) { failure = cmp.Or(failure, err) }
		queries := u.queries.WithTx(tx)
		queries.AddUsage(ctx, hours).Exec(note)
		if failure == nil {
			queries.AddCharged(ctx, charged).Exec(note)
		}
		return failure
	})
}

// inHours are the requests of rows by hour.
func inHours(rows map[rowKey]*row) []usagedb.AddUsageParams {
	sums := map[rowKey]*row{}
	for key, counted := range rows {
		key.minute -= key.minute % int64(time.Hour/time.Second)
		if sums[key] == nil {
			sums[key] = new(row)
		}
		sums[key].add(*counted)
	}
	batch := make([]usagedb.AddUsageParams, 0, len(sums))
	for key, counted := range sums {
		batch = append(batch, usagedb.AddUsageParams{
			ClientID:  key.clientID,
			Hour:      time.Unix(key.minute, 0).UTC(),
			Operation: key.operation,
			Status:    int16(key.status), //nolint:gosec // a status of HTTP
			Requests:  counted.requests,
			Durations: counted.durations[:],
		})
	}
	slices.SortFunc(batch, func(a, b usagedb.AddUsageParams) int {
		return cmp.Or(bytes.Compare(a.ClientID[:], b.ClientID[:]), a.Hour.Compare(b.Hour),
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status))
	})
	return batch
}

// inMinutes are what clients were charged in each minute, whatever they asked.
func inMinutes(rows map[rowKey]*row) []usagedb.AddChargedParams {
	type of struct {
		clientID uuid.UUID
		minute   int64
	}
	sums := map[of]int64{}
	for key, counted := range rows {
		if counted.charged > 0 {
			sums[of{key.clientID, key.minute}] += counted.charged
		}
	}
	batch := make([]usagedb.AddChargedParams, 0, len(sums))
	for key, charged := range sums {
		batch = append(batch, usagedb.AddChargedParams{ClientID: key.clientID, Minute: time.Unix(key.minute, 0).UTC(), Charged: charged})
	}
	slices.SortFunc(batch, func(a, b usagedb.AddChargedParams) int {
		return cmp.Or(bytes.Compare(a.ClientID[:], b.ClientID[:]), a.Minute.Compare(b.Minute))
	})
	return batch
}

// reports are those of each client, or of one, since an hour.
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

// Overview is [Usage.All] for a page that shows all clients at once: the totals alone, without operations and hours, and with
// connections that are counted less exactly.
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
			report.Total.count(int(row.Status), len(row.Durations), rest) // in buckets that only a newer server knows
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

// countConnections adds to reports the connections of their clients, within bounds; the zero value is not to count them.
func (u *Usage) countConnections(ctx context.Context, reports []Report, bounds countBounds) error {
	if bounds == (countBounds{}) {
		return nil
	}
	ids := postgres.Map(reports, func(report Report) uuid.UUID { return report.ClientID })
	connections, unknown, err := u.countInTime(ctx, ids, bounds)
	if err != nil {
		return err
	}
	for i := range reports {
		if reports[i].Connections = connections[reports[i].ClientID]; unknown {
			reports[i].Connections.Precision = Unknown
		}
	}
	return nil
}

// countInTime is connections; unknown says that there was no time for it.
func (u *Usage) countInTime(ctx context.Context, clients []uuid.UUID, bounds countBounds) (found map[uuid.UUID]Connections, unknown bool, err error) {
	found, err = u.connections(ctx, clients, bounds)
	if postgres.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return found, true, nil
	}
	return found, false, err
}

// connections counts the connections of clients in bounded time: exactly for a client with few, by a sample of the table for
// a client with many. Clients without connections are not in the map.
func (u *Usage) connections(ctx context.Context, clients []uuid.UUID, bounds countBounds) (map[uuid.UUID]Connections, error) {
	params := postgres.Map(clients, func(id uuid.UUID) usagedb.CountConnectionStatesParams {
		return usagedb.CountConnectionStatesParams{ClientID: id, AtMost: int32(bounds.exact + 1)} //nolint:gosec // a constant
	})
	limited, cancel := context.WithTimeout(ctx, bounds.timeout)
	defer cancel()
	found := map[uuid.UUID]Connections{}
	many := false
	var failures []error
	u.queries.CountConnectionStates(limited, params).Query(func(i int, rows []usagedb.CountConnectionStatesRow, err error) {
		failures = append(failures, err)
		for _, row := range rows {
			c := found[clients[i]]
			c.add(row.State, row.Connections)
			if c.Sum() > bounds.exact {
				c.Precision, many = AtLeast, true
			}
			found[clients[i]] = c
		}
	})
	if err := errors.Join(failures...); err != nil || !many {
		return found, err
	}
	limited, cancel = context.WithTimeout(ctx, bounds.timeout)
	defer cancel()
	if err := u.sample(limited, found, bounds.sample); limited.Err() == nil { // else lower bounds are known
		return found, err
	}
	return found, ctx.Err()
}

// sample replaces lower bounds by estimates. Nobody needs to know how long the table is: samples grow until one is large
// enough to tell which part of the pages is as many connections as are to be read.
func (u *Usage) sample(ctx context.Context, found map[uuid.UUID]Connections, size int64) error {
	for part := 1e-4; ; {
		sampled, err := u.queries.SampleConnections(ctx, float32(100*part))
		if err != nil {
			return err
		}
		estimates := map[uuid.UUID]Connections{}
		var total int64
		for _, row := range sampled {
			c := estimates[row.ClientID]
			c.add(row.State, row.Connections)
			estimates[row.ClientID] = c
			total += row.Connections
		}
		if next := min(1, part*min(10, float64(size)/float64(max(total, 1)))); next > 1.5*part {
			part = next
			continue
		}
		for client, c := range found {
			if estimate := estimates[client]; c.Precision == AtLeast && estimate.Sum() >= minSample {
				found[client] = estimate.scaled(1 / part)
			}
		}
		return nil
	}
}

// newReports are reports without figures, of each client or of one, in a list and by their clients.
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

// hourOf is the index of an hour. It is false for an hour in the future, since servers' clocks differ a little.
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

// Sweep deletes counts and errors that are older than [Retention]. Every server may call it at any time.
func (u *Usage) Sweep(ctx context.Context) error {
	_, counts := u.queries.SweepUsage(ctx, Retention+time.Hour) // from the hour's beginning
	_, charged := u.queries.SweepCharged(ctx, Retention)
	_, refused := u.queries.SweepClientErrors(ctx, Retention)
	return postgres.Wrap("usage: sweep", errors.Join(counts, charged, refused))
}

// addErrors adds all errors or none, and keeps the latest of each client. Clients are in order, so that servers that write
// concurrently cannot deadlock.
func (u *Usage) addErrors(ctx context.Context, all map[Refusal]ClientError, kept int32) error {
	var added []usagedb.AddClientErrorParams
	var trimmed []usagedb.TrimClientErrorsParams
	for _, one := range all {
		added = append(added, usagedb.AddClientErrorParams{
			ClientID: one.ClientID, Authenticated: one.Authenticated, At: one.At, Operation: one.Operation,
			Status: int16(one.Status), Code: one.Code, Reason: one.Reason, Requests: one.Requests,
		})
		trimmed = append(trimmed, usagedb.TrimClientErrorsParams{ClientID: one.ClientID, Authenticated: one.Authenticated, Kept: kept})
	}
	slices.SortFunc(added, func(a, b usagedb.AddClientErrorParams) int { return bytes.Compare(a.ClientID[:], b.ClientID[:]) })
	slices.SortFunc(trimmed, func(a, b usagedb.TrimClientErrorsParams) int { return bytes.Compare(a.ClientID[:], b.ClientID[:]) })
	trimmed = slices.Compact(trimmed)
	return postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		var failure error
		note := func(_ int, err error) { failure = cmp.Or(failure, err) }
		queries := u.queries.WithTx(tx)
		queries.AddClientError(ctx, added).Exec(note)
		if failure == nil {
			queries.TrimClientErrors(ctx, trimmed).Exec(note)
		}
		return failure
	})
}

// Errors are the latest refused requests of a client, newest first: at most limit of them, those after a position. Error:
// ErrClientNotFound.
func (u *Usage) Errors(ctx context.Context, clientID uuid.UUID, after page.Key, limit int) ([]ClientError, error) {
	if known, err := u.queries.ClientExists(ctx, clientID); err != nil || !known {
		return nil, fmt.Errorf("usage: errors: %w", cmp.Or(err, ErrClientNotFound))
	}
	after = after.OrNewest()
	rows, err := u.queries.ListClientErrors(ctx, usagedb.ListClientErrorsParams{
		ClientID: clientID, BeforeAt: after.At, BeforeID: after.ID, MaxRows: int32(limit),
	})
	list := make([]ClientError, len(rows))
	for i, row := range rows {
		list[i] = ClientError{
			Refusal{row.ClientID, row.Authenticated, row.Operation, row.Code, row.Reason, int(row.Status)}, row.At, row.Requests, row.ErrorID,
		}
	}
	return list, postgres.Wrap("usage: errors", err)
}
