// Package servers knows which servers work on the database, which alerts fire on each, whether the database's clock is right, and how large
// the database is and was. It owns the tables servers, sweeps and database_sizes.
//
// # Invariants
//
//   - A server that stops removes its row. A server that was killed is listed as lost for a day (TestServers).
//   - The list is bounded, and keeps the servers that were seen last (TestManyWereKilled).
//   - The database's clock is believed only if it ran evenly and most clocks agree with it (TestJudge).
//   - Servers that run limit rates in one store (TestOneLimiter).
//   - The size of the database is recorded once a day and kept for 400 days (TestDatabase).
//
// A server whose row cannot be written serves as before. The rows hold no credential, no
// address and nothing about a user.
package servers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	serversdb "connect-svc/gen/db/servers"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// lostAfter is the age of a heartbeat after which a server counts as lost: it was killed, or cannot reach the database.
// Servers send heartbeats at every other evaluation of the alerts.
const lostAfter = 4 * alerts.Interval

// Server is one that works on the database, as it describes itself. ID is of its process, Host its name (a host and a port, or what a setting
// says), and Ago is the time since SeenAt.
type Server serversdb.ListServersRow

// Lost reports whether the server's heartbeats have stopped. A heartbeat of the future is from a time when the clock was wrong.
func (s Server) Lost() bool { return s.Ago.Abs() > lostAfter }

// Servers gives one server access to the list of servers, which holds its own row.
type Servers struct {
	// Limiter, if set, identifies the store of this server's rate limiter: two servers share a store if and only if the texts are equal.
	Limiter func(context.Context) (string, error)
	// Certificates, if set, returns when those of this server's listeners end; nil for one without.
	Certificates func() (public, private *time.Time)

	pool    *postgres.Pool
	queries *serversdb.Queries
	self    serversdb.PutServerParams
	joined  bool      // this server has joined the list once
	seenAt  time.Time // of the last heartbeat; zero if this server must join the list, or join it again
	unsure  time.Time // since when another server has another Redis, by the database's clock; zero if none has
	clock   atomic.Pointer[Clock]
}

// ErrUnsure means that another server has another Redis, or the same one, which has lost its data and so has another id now. The other server
// notices that with its next heartbeat. Try again.
var ErrUnsure = errors.New("servers: waiting for another server, which has another Redis or does not know that it lost its data")

// LimiterError means that another server limits rates in another store, so that clients would have more than their budgets.
type LimiterError struct {
	Host         string // of the other server
	Theirs, Ours string // stores
}

func (e *LimiterError) Error() string {
	return fmt.Sprintf("rate limiter (CONNECT_LIMITER_URL): the server %s uses %s and this one %s: all servers must use one store. "+
		"To change it, stop all servers first; one that was killed counts for a minute", e.Host, e.Theirs, e.Ours)
}

// New returns the access of a server, by its name, that started at startedAt, on a migrated database. [Servers.Heartbeat] adds it to the list.
func New(pool *postgres.Pool, host, version, commit string, startedAt time.Time) *Servers {
	s := &Servers{pool: pool, queries: serversdb.New(pool), self: serversdb.PutServerParams{
		ServerID: uuid.New(), Host: short(host), Version: short(version), Commit: short(commit), StartedAt: startedAt,
	}}
	s.clock.Store(new(Clock))
	return s
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

// Heartbeat records that this server runs, what it knows of the clock, and which alerts fire on it. Call it from one goroutine.
//
// Errors if this server joins the list, or was lost, and another server has another store: *LimiterError, with which it must stop, or
// ErrUnsure.
func (s *Servers) Heartbeat(ctx context.Context, firing []alerts.Alert) error {
	if s.Limiter != nil {
		asking, cancel := ctx, func() {}
		if s.joined { // a store that hangs costs no heartbeat: this server would seem lost
			asking, cancel = context.WithTimeout(ctx, time.Second/2)
		}
		if store, err := s.Limiter(asking); err == nil {
			s.self.Limiter = store
		}
		cancel()
	}
	if s.Certificates != nil {
		s.self.PublicCertificateEnds, s.self.PrivateCertificateEnds = s.Certificates()
	}
	clock := s.Clock()
	s.self.ClockAhead, s.self.ClockBelieved = clock.Ahead, clock.Doubt == ""
	s.self.Alerts = append([]alerts.Alert{}, firing...) // nil would be null
	var conflict error
	err := postgres.InTx(work.AnyClock(ctx), s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		if s.self.Limiter != "" && time.Since(s.seenAt) > lostAfter {
			conflict = s.checkLimiter(ctx, queries)
		}
		// Servers that join again tell each other which Redis they have: all may know of another one than their rows say.
		if conflict != nil && (!s.joined || !errors.Is(conflict, ErrUnsure)) {
			return conflict
		}
		return queries.PutServer(ctx, s.self)
	})
	if err == nil && conflict == nil {
		s.joined, s.seenAt = true, time.Now()
	}
	if err == nil {
		err = conflict
	}
	if clock.Doubt != "" {
		s.seenAt = time.Time{} // this server seems lost to others that join
	}
	return postgres.Wrap("servers: heartbeat", err)
}

// checkLimiter returns a *LimiterError or ErrUnsure if another server has another store. Servers that join at the same time do so in turn.
func (s *Servers) checkLimiter(ctx context.Context, queries *serversdb.Queries) error {
	if err := queries.LockLimiter(ctx); err != nil {
		return err
	}
	ours := s.self.Limiter
	others, err := queries.FindOtherLimiter(ctx, serversdb.FindOtherLimiterParams{ServerID: s.ID(), Limiter: ours, LostAfter: lostAfter})
	if err != nil || len(others) == 0 {
		s.unsure = time.Time{}
		return err
	}
	other := others[0]
	if s.unsure.IsZero() {
		s.unsure = s.pool.Clock().Now()
	}
	sameKind := strings.Fields(other.Limiter)[0] == strings.Fields(ours)[0]
	if sameKind && other.SeenAt.Before(s.unsure.Add(alerts.Interval)) { // it may have been killed, or has not looked since
		return ErrUnsure
	}
	return &LimiterError{other.Host, other.Limiter, ours}
}

// OthersWork reports whether another server has reached the database within a time. It does not use this server's pool.
func (s *Servers) OthersWork(ctx context.Context, within time.Duration) (work bool, err error) {
	err = s.pool.Outside(ctx, func(conn *pgx.Conn) (err error) {
		work, err = serversdb.New(conn).OthersWork(ctx, serversdb.OthersWorkParams{ServerID: s.ID(), Within: within})
		return err
	})
	return work, postgres.Wrap("servers: others", err)
}

// Deregister removes this server's row.
func (s *Servers) Deregister(ctx context.Context) error {
	return postgres.Wrap("servers: deregister", s.queries.DeleteServer(work.AnyClock(ctx), s.ID()))
}

// List returns the servers that sent a heartbeat within a day and did not stop since, by host. It is bounded: those that were lost
// longest ago are left out.
func (s *Servers) List(ctx context.Context) ([]Server, error) {
	rows, err := s.queries.ListServers(work.AnyClock(ctx), 200) // more exist only if many were killed within a day
	return postgres.Map(rows, func(row serversdb.ListServersRow) Server { return Server(row) }), postgres.Wrap("servers: list", err)
}

// Dismiss removes the row of a server if it is lost.
func (s *Servers) Dismiss(ctx context.Context, id uuid.UUID) error {
	return postgres.Wrap("servers: dismiss", s.queries.DismissServer(work.AnyClock(ctx),
		serversdb.DismissServerParams{ServerID: id, LostAfter: lostAfter}))
}

// SweepUntil moves the time until which sweeps delete by a step, and returns it. It is at least five minutes ago.
func (s *Servers) SweepUntil(ctx context.Context, step time.Duration) (time.Time, error) {
	until, err := s.queries.MoveSweep(ctx, step)
	return until, postgres.Wrap("servers: sweep", err)
}

// Sweep deletes servers that were lost a day ago, and records the size of the database once a day.
func (s *Servers) Sweep(ctx context.Context) error {
	_, lost := s.queries.DeleteLostServers(ctx)
	return postgres.Wrap("servers: sweep", errors.Join(lost, s.queries.RecordDatabaseSize(ctx), s.queries.DeletePastSizes(ctx)))
}

// Database is PostgreSQL's description of itself.
type Database struct {
	serversdb.DatabaseRow
	Sizes  []Size // one a day, oldest first; days may be missing
	Tables []Table
}

// Size of the database on a day.
type Size = serversdb.DatabaseSize

// Table is one of the largest tables, with everything that belongs to it, and about how many rows it has.
type Table = serversdb.LargestTablesRow

// Growth returns by how many bytes the database grew since the first of its sizes, and over how many days. known is false if there is
// no size of an earlier day.
func (d Database) Growth(today time.Time) (bytes int64, days int, known bool) {
	if len(d.Sizes) == 0 {
		return 0, 0, false
	}
	days = int(today.UTC().Truncate(24*time.Hour).Sub(d.Sizes[0].Day).Hours() / 24)
	return d.Bytes - d.Sizes[0].Bytes, days, days > 0
}

// Database asks PostgreSQL for its version and size, the sizes of the last 30 days, and the ten largest tables.
func (s *Servers) Database(ctx context.Context) (Database, error) {
	row, err := s.queries.Database(ctx)
	sizes, failure := s.queries.ListDatabaseSizes(ctx, 30)
	tables, last := s.queries.LargestTables(ctx, 10)
	return Database{row, sizes, tables}, postgres.Wrap("servers: database", errors.Join(err, failure, last))
}

// Sizes returns the newest recorded size of the database, and the one of a week before it, in bytes; 0 if there is none.
func (s *Servers) Sizes(ctx context.Context) (bytes, weekBefore int64, err error) {
	row, err := s.queries.Sizes(work.AnyClock(ctx))
	return row.Bytes, row.WeekBefore, postgres.Wrap("database sizes", err)
}

// podName is the name of a server in a pod of a Deployment. Kubernetes replaces a pod by one with another end of the name.
var podName = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}(:[0-9]+)?$`)

// placeOf returns what two servers have in common of which one replaces the other: the name, or the Deployment and the port.
func placeOf(name string) string { return podName.ReplaceAllString(name, "$1$2") }

// Down returns the lost servers that no other one has replaced. A server replaces one that was lost in its place before it started.
func Down(list []Server) (down []Server) {
	byStart := slices.SortedFunc(slices.Values(list), func(a, b Server) int { return a.StartedAt.Compare(b.StartedAt) })
	used := map[uuid.UUID]bool{}
	bySight := slices.SortedFunc(slices.Values(list), func(a, b Server) int { return a.SeenAt.Compare(b.SeenAt) })
	for _, lost := range bySight {
		if !lost.Lost() {
			continue
		}
		i := slices.IndexFunc(byStart, func(s Server) bool {
			return !s.Lost() && !used[s.ID] && placeOf(s.Host) == placeOf(lost.Host) && s.StartedAt.After(lost.SeenAt)
		})
		if i < 0 {
			down = append(down, lost)
		} else {
			used[byStart[i].ID] = true
		}
	}
	return down
}
