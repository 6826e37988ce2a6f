package usage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/gen/db"
	"connect-svc/internal/postgres"
)

// store is what this package asks of the database, one whole act a method.
type store struct {
	pool    *pgxpool.Pool
	queries *db.Queries
}

func newStore(pool *pgxpool.Pool) store { return store{pool, db.New(pool)} }

// add adds all rows or none. They are sorted, so that servers that add at the same time wait for each other and never
// in a circle.
func (s store) add(ctx context.Context, rows map[rowKey]*row) error {
	batch := make([]db.AddUsageParams, 0, len(rows))
	for key, counted := range rows {
		batch = append(batch, db.AddUsageParams{
			ClientID:  key.clientID,
			Minute:    time.Unix(key.minute, 0).UTC(),
			Operation: key.operation,
			Status:    int16(key.status), //nolint:gosec // a status of HTTP
			Requests:  counted.requests,
			Paid:      counted.paid,
			Durations: counted.durations[:],
		})
	}
	slices.SortFunc(batch, func(a, b db.AddUsageParams) int {
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

// reports has a report for each client, or for one, since an hour.
func (s store) reports(ctx context.Context, clientID uuid.UUID, since, until time.Time) ([]Report, error) {
	every := clientID == uuid.Nil
	clients, err := s.queries.UsageClients(ctx, db.UsageClientsParams{ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	reports := make([]Report, len(clients))
	byID := map[uuid.UUID]*Report{}
	for i, row := range clients {
		reports[i] = newReport(row, since, until)
		byID[row.ClientID] = &reports[i]
	}
	counted, err := s.queries.UsageByHour(ctx, db.UsageByHourParams{Since: since, ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	for _, row := range counted {
		if report := byID[row.ClientID]; report != nil {
			report.count(row)
		}
	}
	budgets, err := s.queries.BudgetByHour(ctx, db.BudgetByHourParams{Since: since, ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	for _, row := range budgets {
		if report := byID[row.ClientID]; report != nil {
			report.spend(row)
		}
	}
	connections, err := s.queries.CountConnections(ctx, db.CountConnectionsParams{ClientID: clientID, EveryClient: every})
	if err != nil {
		return nil, err
	}
	for _, row := range connections {
		if report := byID[row.ClientID]; report != nil {
			report.Connections.set(row.ShownState, row.Connections)
		}
	}
	return reports, nil
}

func newReport(row db.UsageClientsRow, since, until time.Time) Report {
	report := Report{
		ClientID: row.ClientID, Name: row.Name, Status: row.Status, RequestsPerMinute: int(row.RequestsPerMinute),
		Since: since, Until: until,
	}
	for hour := since; hour.Before(until); hour = hour.Add(time.Hour) {
		report.Hours = append(report.Hours, Hour{Start: hour})
	}
	return report
}

// hourOf is the index of an hour, and false for one that lies ahead: servers' clocks differ a little.
func (r *Report) hourOf(hour time.Time) (int, bool) {
	index := int(hour.Sub(r.Since) / time.Hour)
	return index, index >= 0 && index < len(r.Hours)
}

func (r *Report) count(row db.UsageByHourRow) {
	hour, within := r.hourOf(row.Hour)
	if !within || row.Bucket < 1 || int(row.Bucket) > len(durations{}) {
		return
	}
	operation := slices.IndexFunc(r.Operations, func(o Operation) bool { return o.Name == row.Operation })
	if operation < 0 {
		operation = len(r.Operations)
		r.Operations = append(r.Operations, Operation{Name: row.Operation, Hours: make([]Figures, len(r.Hours))})
	}
	found := &r.Operations[operation]
	for _, figures := range []*Figures{&r.Total, &r.Hours[hour].Figures, &found.Total, &found.Hours[hour]} {
		figures.count(int(row.Status), int(row.Bucket)-1, row.Requests)
	}
}

func (r *Report) spend(row db.BudgetByHourRow) {
	if hour, within := r.hourOf(row.Hour); within {
		r.Hours[hour].Paid = row.Paid
		r.Hours[hour].BusiestMinute = row.BusiestMinute
		r.Paid += row.Paid
		r.BusiestMinute = max(r.BusiestMinute, row.BusiestMinute)
	}
}

func (s store) sweep(ctx context.Context) error {
	_, err := s.queries.SweepUsage(ctx, Retention)
	return err
}
