package overview

import (
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/alerts"
	"connect-svc/internal/postgres"
)

// Facts are what is known of the service at an instant. What is asked of others may not be known.
type Facts struct {
	At              time.Time
	Version, Commit string // of this server's program
	Go, Contract    string // the versions of Go and of the partner API
	Self            uuid.UUID
	Alerts          []alerts.Alert // that fire on this server
	Unwatched       int64          // series that no alert sees, because there are too many
	Servers         Asked[[]Server]
	Migrations      Asked[Migrations]
	Database        Asked[Database]
	Certificates    []Certificate
	Keys            Asked[[]Key]
	Mail            Mail
	MailWaiting     Asked[Waiting]
	Webhooks        Asked[Webhooks]
	Limiter         Limiter
	Replicas        []postgres.ReplicaState
	Reload          Reload
}

// Asked is the answer of somebody else, who may not have answered in time.
type Asked[T any] struct {
	Known bool
	Is    T
}

// Server is one that works on the database, as it says of itself.
type Server struct {
	ID              uuid.UUID // of its process
	Host            string
	Version, Commit string
	StartedAt       time.Time
	SeenAt          time.Time
	Ago             time.Duration // since then
	Alerts          []alerts.Alert
}

// lostAfter is three times [alerts.Interval]: one that says nothing for so long has been killed, or cannot reach the database.
const lostAfter = 3 * alerts.Interval

// Lost tells whether a server stopped to say that it is there.
func (s Server) Lost() bool { return s.Ago > lostAfter }

// Migrations are the newest one that was applied, and the newest one that the program has.
type Migrations struct{ Applied, Known int64 }

// Database is what PostgreSQL says of itself.
type Database struct {
	Version string
	Bytes   int64
	Sizes   []Size // of the days, oldest first; days may be missing
	Tables  []Table
}

// Size is how large the database was on a day.
type Size struct {
	Day   time.Time
	Bytes int64
}

// Growth is by how much the database has grown since the first of the sizes, over how many days; known is false where no day
// but today is there.
func (d Database) Growth(today time.Time) (bytes int64, days int, known bool) {
	if len(d.Sizes) == 0 {
		return 0, 0, false
	}
	days = int(today.UTC().Truncate(24*time.Hour).Sub(d.Sizes[0].Day).Hours() / 24)
	return d.Bytes - d.Sizes[0].Bytes, days, days > 0
}

// Table is one of the largest, with all that belongs to it.
type Table struct {
	Name           string
	Bytes, Indexes int64
	Rows           int64 // as PostgreSQL estimates them
}

// Certificate is what a listener presents.
type Certificate struct {
	Listener string   // public or private
	Names    []string // and addresses
	NotAfter time.Time
	Problem  string // why no caller can connect with it; empty: none
}

// Reload is how it went when this server read its settings again; the zero value: it has not since its start.
type Reload struct {
	At      time.Time
	Problem string // what could not be used; empty: all could
}

// Key is one of the keyset, without its material.
type Key struct {
	ID     string
	Status string    // next, primary, retired or identifiers
	Since  time.Time // when a server used it for the first time; zero: not known, or not yet
}

// Mail is how this server's emails went since it started.
type Mail struct {
	Sent, Failed uint64
	Used         bool   // whether there was a session with the mail server
	Trouble      string // why the last one failed; empty: it went well
}

// Waiting are emails that wait, on all servers.
type Waiting struct {
	Count  int
	Oldest time.Duration
}

// Webhooks is how delivery to all partners goes.
type Webhooks struct {
	Waiting, Due int64
	Oldest       time.Duration
	Failed       int64 // given up within a day, up to 10,000
	Ages         []Age // of those that wait, youngest first
}

// Age are the events that have waited for up to so long, and longer than those of the age before; 0: any time.
type Age struct {
	UpTo  time.Duration
	Count int64
}

// Limiter is where the rate policy is kept.
type Limiter struct {
	Redis   bool // or Valkey; else PostgreSQL
	Answers bool
	Took    time.Duration // to answer
}
