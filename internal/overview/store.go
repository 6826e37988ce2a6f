package overview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	overviewdb "connect-svc/gen/db/overview"
	"connect-svc/internal/alerts"
	"connect-svc/internal/postgres"
)

const (
	// maxServers and maxTables bound lists: there are more servers only where many were killed within a day.
	maxServers = 200
	maxTables  = 10
	// growthDays is how far back the database's size is shown.
	growthDays = 30
)

// Overview is a server's view of the service, and its row in it.
type Overview struct {
	queries               *overviewdb.Queries
	id                    uuid.UUID
	host, version, commit string
	startedAt             time.Time
}

// New is the view of a server that started at an instant, on a migrated database.
func New(pool *postgres.Pool, host, version, commit string, startedAt time.Time) *Overview {
	return &Overview{overviewdb.New(pool), uuid.New(), short(host), short(version), short(commit), startedAt}
}

// short cuts a text to what a row may hold.
func short(text string) string {
	if text == "" {
		return "unknown"
	}
	return text[:min(len(text), 255)]
}

// ID is that of this server's process.
func (o *Overview) ID() uuid.UUID { return o.id }

// Here says that this server is there, and what fires on it.
func (o *Overview) Here(ctx context.Context, firing []alerts.Alert) error {
	text, err := json.Marshal(append([]alerts.Alert{}, firing...))
	if err == nil {
		err = o.queries.PutServer(ctx, overviewdb.PutServerParams{
			ServerID: o.id, Host: o.host, Version: o.version, Commit: o.commit, StartedAt: o.startedAt, Alerts: text,
		})
	}
	return postgres.Wrap("overview: this server", err)
}

// Leave takes this server's row away.
func (o *Overview) Leave(ctx context.Context) error {
	return postgres.Wrap("overview: leave", o.queries.DeleteServer(ctx, o.id))
}

// Servers are those that said they are there within a day and did not stop since, by host. Where there are too many, the longest
// lost are left out.
func (o *Overview) Servers(ctx context.Context) ([]Server, error) {
	rows, err := o.queries.ListServers(ctx, maxServers)
	if err != nil {
		return nil, fmt.Errorf("overview: servers: %w", err)
	}
	list := make([]Server, len(rows))
	for i, row := range rows {
		list[i] = Server{
			ID: row.ServerID, Host: row.Host, Version: row.Version, Commit: row.Commit, StartedAt: row.StartedAt, SeenAt: row.SeenAt,
			Ago: time.Duration(row.SecondsAgo * float64(time.Second)),
		}
		if err := json.Unmarshal(row.Alerts, &list[i].Alerts); err != nil {
			return nil, fmt.Errorf("overview: servers: %w", err)
		}
	}
	return list, nil
}

// Database asks PostgreSQL for its version and size, the sizes of the last 30 days, and the largest tables.
func (o *Overview) Database(ctx context.Context) (d Database, err error) {
	now, err := o.queries.Database(ctx)
	if err != nil {
		return Database{}, fmt.Errorf("overview: database: %w", err)
	}
	d.Version, d.Bytes = now.Version, now.Bytes
	days, err := o.queries.ListDatabaseSizes(ctx, growthDays)
	if err != nil {
		return Database{}, fmt.Errorf("overview: sizes: %w", err)
	}
	d.Sizes = postgres.Map(days, func(day overviewdb.DatabaseSize) Size { return Size(day) })
	tables, err := o.queries.LargestTables(ctx, maxTables)
	for _, table := range tables {
		d.Tables = append(d.Tables, Table{table.Name, table.Bytes, table.IndexBytes, table.EstimatedRows})
	}
	return d, postgres.Wrap("overview: tables", err)
}

// Sweep removes servers that were lost a day ago, and notes the size of the database once a day.
func (o *Overview) Sweep(ctx context.Context) error {
	_, lost := o.queries.DeleteLostServers(ctx)
	return postgres.Wrap("overview: sweep", errors.Join(lost, o.queries.NoteDatabaseSize(ctx), o.queries.DeletePastSizes(ctx)))
}
