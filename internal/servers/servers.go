package servers

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	serversdb "connect-svc/gen/db/servers"
	"connect-svc/internal/alerts"
	"connect-svc/internal/postgres"
)

// maxServers bounds the list. More servers exist only if many were killed within a day.
const maxServers = 200

// lostAfter is the age of a heartbeat after which a server counts as lost: it was killed, or cannot reach the database.
// Servers send heartbeats at every other evaluation of the alerts.
const lostAfter = 4 * alerts.Interval

// Server is one that works on the database, as it describes itself. ID is of its process, and Ago is the time since SeenAt.
type Server serversdb.ListServersRow

// Lost reports whether the server's heartbeats have stopped.
func (s Server) Lost() bool { return s.Ago > lostAfter }

// Servers gives one server access to the list of servers, which holds its own row.
type Servers struct {
	queries *serversdb.Queries
	self    serversdb.PutServerParams
}

// New returns the access of a server that started at startedAt, on a migrated database. [Servers.Heartbeat] adds it to the list.
func New(pool *postgres.Pool, host, version, commit string, startedAt time.Time) *Servers {
	return &Servers{serversdb.New(pool), serversdb.PutServerParams{
		ServerID: uuid.New(), Host: short(host), Version: short(version), Commit: short(commit), StartedAt: startedAt,
	}}
}

// short cuts a text to the length of a column.
func short(text string) string {
	if text == "" {
		return "unknown"
	}
	return text[:min(len(text), 255)]
}

// ID identifies this server's process.
func (s *Servers) ID() uuid.UUID { return s.self.ServerID }

// Heartbeat records that this server runs, and which alerts fire on it.
func (s *Servers) Heartbeat(ctx context.Context, firing []alerts.Alert) error {
	beat := s.self
	beat.Alerts = append([]alerts.Alert{}, firing...) // nil would be null
	return postgres.Wrap("servers: heartbeat", s.queries.PutServer(ctx, beat))
}

// Deregister removes this server's row.
func (s *Servers) Deregister(ctx context.Context) error {
	return postgres.Wrap("servers: deregister", s.queries.DeleteServer(ctx, s.ID()))
}

// List returns the servers that sent a heartbeat within a day and did not stop since, by host. It is bounded: those that were lost
// longest ago are left out.
func (s *Servers) List(ctx context.Context) ([]Server, error) {
	rows, err := s.queries.ListServers(ctx, maxServers)
	return postgres.Map(rows, func(row serversdb.ListServersRow) Server { return Server(row) }), postgres.Wrap("servers: list", err)
}

// Sweep deletes servers that were lost a day ago, and records the size of the database once a day.
func (s *Servers) Sweep(ctx context.Context) error {
	_, lost := s.queries.DeleteLostServers(ctx)
	return postgres.Wrap("servers: sweep", errors.Join(lost, s.queries.RecordDatabaseSize(ctx), s.queries.DeletePastSizes(ctx)))
}
