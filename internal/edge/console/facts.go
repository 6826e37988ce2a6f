package console

import (
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/alerts"
)

// Facts describe the service at an instant. Answers of other systems may be missing.
type Facts struct {
	At              time.Time
	Version, Commit string // of this server's program
	Go, Contract    string // versions of Go and of the partner API
	Self            uuid.UUID
	Alerts          []alerts.Alert // that fire on this server
	Servers         Optional[[]servers.Server]
	Migrations      Optional[Migrations]
	Database        Optional[servers.Database]
	Certificates    []Certificate
	Keys            Optional[[]Key]
	Mail            Mail
	MailWaiting     Optional[MailWaiting]
	Webhooks        Optional[webhook.Queue]
	Redis           bool                    // or Valkey is the store of the rate policy; else PostgreSQL
	Limiter         Optional[time.Duration] // how long that store took to answer
	Clock           servers.Clock           // of the database, as this server sees it
	Replicas        []Replica
	Reload          Reload
}

// Optional is the answer of another system, which may not have answered in time.
type Optional[T any] struct {
	Known bool
	Value T
}

// Migrations are the newest one that was applied, and the newest one that the program has.
type Migrations struct{ Applied, Known int64 }

// Certificate of a listener.
type Certificate struct {
	Listener string   // public or private
	Names    []string // and addresses
	NotAfter time.Time
	Problem  string // why no caller can connect with it, or empty
}

// Reload is the last time that this server read its settings again. The zero value: never since its start.
type Reload struct {
	At      time.Time
	Problem string // settings that could not be used, or empty
}

// Key is one of the keyset, without its material.
type Key struct {
	ID     string
	Status string    // next, primary, retired or identifiers
	Since  time.Time // its first use by a server, or zero if it is not known or not used yet
}

// Mail counts this server's emails since its start.
type Mail struct {
	Sent, Failed uint64
	Used         bool   // there was a session with the mail server
	Trouble      string // why the last email failed, or empty if it was sent
}

// MailWaiting are the emails that wait on all servers.
type MailWaiting struct {
	Count  int
	Oldest time.Duration
}

// Replica answers reads of activity.
type Replica struct {
	Name string        // host:port
	Used bool          // it is current
	Lag  time.Duration // how old its rows are at most, 0 if it is not used
}
