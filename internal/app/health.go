package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// The kinds of what the service depends on, in metrics, logs and /readyz.
const (
	ofDatabase = "database"
	ofWrites   = "database_writes"
	ofLimiter  = "limiter"
	ofMail     = "mail_server"
	ofReplica  = "replica"

	primary = "primary" // the name of the database beside its replicas
)

// How often this server asks what no request may have used for hours. With the delay of its alert, each stop is told within two minutes.
const (
	limiterEvery = 15 * time.Second
	mailEvery    = 30 * time.Second
	diskEvery    = 30 * time.Second
)

// dependency is something without which the service does not work as it should.
type dependency struct{ kind, name string }

// health has what this server's own looks have found. They need no request. It is safe for concurrent use.
type health struct {
	sync.Mutex
	known map[dependency]outcome

	diskFree, diskSize uint64 // of the database, in bytes; 0: not known
}

type outcome struct {
	up          bool
	lastSuccess time.Time // zero: there was none
}

// found records how a look at a dependency ended, and logs a change.
func (a *App) found(kind, name string, err error) {
	a.health.Lock()
	last, asked := a.health.known[dependency{kind, name}]
	next := outcome{up: err == nil, lastSuccess: last.lastSuccess}
	if err == nil {
		next.lastSuccess = a.config.Clock.Now()
	}
	if a.health.known == nil {
		a.health.known = map[dependency]outcome{}
	}
	a.health.known[dependency{kind, name}] = next
	a.health.Unlock()
	switch {
	case err != nil && (last.up || !asked):
		a.logger.Warn("a dependency is down", "dependency", kind, "name", name, "cause", postgres.Reason(err))
	case err == nil && asked && !last.up:
		a.logger.Info("a dependency is up again", "dependency", kind, "name", name)
	}
}

// down returns the kinds of which something was down at the last look, in alphabetical order. away is why the database does not answer now.
func (a *App) down(away error) (kinds []string) {
	if away != nil {
		kinds = append(kinds, ofDatabase)
	}
	if a.replicasLeftOut() != "" {
		kinds = append(kinds, ofReplica)
	}
	a.health.Lock()
	defer a.health.Unlock()
	for asked, last := range a.health.known {
		if !last.up {
			kinds = append(kinds, asked.kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// attend asks a dependency at once and then at each interval until ctx ends.
func (a *App) attend(ctx context.Context, kind, name string, interval, limit time.Duration, ask func(context.Context) error) {
	look := func() {
		limited, cancel := context.WithTimeout(work.AnyClock(ctx), limit)
		defer cancel()
		if err := work.Try(func() error { return ask(limited) }); ctx.Err() == nil {
			a.found(kind, name, err)
		}
	}
	look()
	work.Every(ctx, interval, look)
}

// lookAtDisk finds out how full the database's disk is, if it can be known.
func (a *App) lookAtDisk(ctx context.Context) {
	limited, cancel := context.WithTimeout(work.AnyClock(ctx), a.config.Limits.Probe)
	defer cancel()
	free, size, _ := postgres.Disk(limited, a.Pool) // without an answer it is not known
	a.health.Lock()
	defer a.health.Unlock()
	a.health.diskFree, a.health.diskSize = free, size
}

// tellHealth tells what the looks found.
func (a *App) tellHealth(tell telemetry.Tell) {
	up := func(kind, name string, up bool) {
		tell(gauge, "dependency_up", "Whether a dependency answered this server's last look: 1, or 0. Looks need no requests.",
			map[bool]float64{true: 1}[up], "dependency", kind, "name", name)
	}
	for _, state := range a.Replicas.States() {
		up(ofReplica, state.Name, state.Used)
	}
	a.health.Lock()
	defer a.health.Unlock()
	if a.health.diskSize > 0 {
		const disk = "The file system of the database's data directory, in bytes, if it is on this machine and PostgreSQL tells which it is."
		tell(gauge, "database_disk_free_bytes", disk, float64(a.health.diskFree))
		tell(gauge, "database_disk_bytes", disk, float64(a.health.diskSize))
	}
	for asked, last := range a.health.known {
		up(asked.kind, asked.name, last.up)
		if !last.lastSuccess.IsZero() {
			tell(gauge, "dependency_last_success_timestamp_seconds", "When the last look at a dependency went well, in Unix time.",
				float64(last.lastSuccess.Unix()), "dependency", asked.kind, "name", asked.name)
		}
	}
}
