package usage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/postgres"
)

// store is this package's access to the database. Each method is one atomic act.
type store struct {
	pool    *postgres.Pool
	queries *usagedb.Queries
	bounds  countBounds
}

func newStore(pool *postgres.Pool) store { return store{pool, usagedb.New(pool), defaultCountBounds} }

// add adds all rows or none. It sorts them, so that servers that write concurrently cannot deadlock.
func (s store) add(ctx context.Context, rows map[rowKey]*row) error {
	batch := make([]usagedb.AddUsageParams, 0, len(rows))
	for key, counted := range rows {
		batch = append(batch, usagedb.AddUsageParams{
			ClientID:  key.clientID,
			Minute:    time.Unix(key.minute, 0).UTC(),
			Operation: key.operation,
			Status:    int16(key.status), //nolint:gosec // a status of HTTP
			Requests:  counted.requests,
			Charged:   counted.charged,
			Durations: counted.durations[:],
		})
	}
	slices.SortFunc(batch, func(a, b usagedb.AddUsageParams) int {
		return cmp.Or(bytes.Compare(a.ClientID[:], b.ClientID[:]), a.Minute.Compare(b.Minute),
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status))
	})
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var failures []error
		s.queries.WithTx(tx).AddUsage(ctx, batch).Exec(func(_ int, err error) {
			if len(failures) == 0 && err != nil {
				failures = append(failures, err)
			}
		})
		return errors.Join(failures...)
	})
}

// reports returns a report for each client, or for one, since an hour.
func (s store) reports(ctx context.Context, clientID uuid.UUID, since, until time.Time) ([]Report, error) {
	every := clientID == uuid.Nil
	clients, err := s.queries.UsageClients(ctx, usagedb.UsageClientsParams{ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	reports := make([]Report, len(clients))
	byID := map[uuid.UUID]*Report{}
	for i, row := range clients {
		reports[i] = newReport(row, since, until)
		byID[row.ClientID] = &reports[i]
	}
	counted, err := s.queries.UsageByHour(ctx, usagedb.UsageByHourParams{Since: since, ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	for _, row := range counted {
		if report := byID[row.ClientID]; report != nil {
			report.count(row)
		}
	}
	budgets, err := s.queries.BudgetByHour(ctx, usagedb.BudgetByHourParams{Since: since, ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	for _, row := range budgets {
		if report := byID[row.ClientID]; report != nil {
			report.spend(row)
		}
	}
	connections, err := s.connections(ctx, clientID)
	unknown := postgres.IsTimeout(err)
	if err != nil && !unknown {
		return nil, err
	}
	for i := range reports {
		if reports[i].Connections = connections[reports[i].ClientID]; unknown {
			reports[i].Connections.Precision = Unknown
		}
	}
	return reports, nil
}

// connections counts the connections of one client, or of every client, in bounded time: exactly for a client with few, by
// a sample of the table for a client with many. Clients without connections are not in the map. The error is PostgreSQL's
// timeout if even that took too long.
func (s store) connections(ctx context.Context, clientID uuid.UUID) (map[uuid.UUID]Connections, error) {
	every := clientID == uuid.Nil
	found := map[uuid.UUID]Connections{}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		if err := queries.LimitTime(ctx, strconv.FormatInt(s.bounds.timeout.Milliseconds(), 10)); err != nil {
			return err
		}
		counted, err := queries.CountConnectionStates(ctx, usagedb.CountConnectionStatesParams{
			ClientID: clientID, EveryClient: every, AtMost: int32(s.bounds.exact + 1), //nolint:gosec // a constant
		})
		if err != nil {
			return err
		}
		many := false
		for _, row := range counted {
			c := found[row.ClientID]
			c.add(row.State, row.Connections)
			if c.Sum() > s.bounds.exact {
				c.Precision, many = AtLeast, true
			}
			found[row.ClientID] = c
		}
		if !many {
			return nil
		}
		return s.sample(ctx, queries, usagedb.SampleConnectionsParams{ClientID: clientID, EveryClient: every}, found)
	})
	if postgres.IsTimeout(err) && len(found) > 0 {
		return found, nil // the sample took too long, but lower bounds are known
	}
	return found, err
}

// sample replaces lower bounds by estimates.
func (s store) sample(ctx context.Context, queries *usagedb.Queries, params usagedb.SampleConnectionsParams, found map[uuid.UUID]Connections) error {
	rows, err := queries.EstimateConnections(ctx)
	if err != nil {
		return err
	}
	part := min(1, float64(s.bounds.sample)/float64(max(rows, 1)))
	params.Percent = float32(100 * part)
	sampled, err := queries.SampleConnections(ctx, params)
	if err != nil {
		return err
	}
	estimates := map[uuid.UUID]Connections{}
	for _, row := range sampled {
		c := estimates[row.ClientID]
		c.add(row.State, row.Connections)
		estimates[row.ClientID] = c
	}
	for client, c := range found {
		if estimate := estimates[client]; c.Precision == AtLeast && estimate.Sum() >= minSample {
			found[client] = estimate.scaled(1 / part)
		}
	}
	return nil
}

func newReport(row usagedb.UsageClientsRow, since, until time.Time) Report {
	report := Report{
		ClientID: row.ClientID, Name: row.Name, Status: row.Status, RequestsPerMinute: int(row.RequestsPerMinute),
		Since: since, Until: until,
	}
	for hour := since; hour.Before(until); hour = hour.Add(time.Hour) {
		report.Hours = append(report.Hours, Hour{Start: hour})
	}
	return report
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

func (s store) sweep(ctx context.Context) error {
	_, err := s.queries.SweepUsage(ctx, Retention)
	return err
}
