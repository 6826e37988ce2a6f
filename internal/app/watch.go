package app

import (
	"context"
	"os"
	"time"

	"connect-svc/docs"
	"connect-svc/internal/alerts"
	"connect-svc/internal/panics"
	"connect-svc/internal/servers"
)

// openServers prepares this server's row among the servers, and the alerts.
func (a *App) openServers() (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // there is none to tell it by
	}
	a.servers = servers.New(a.Pool, host, a.config.Version, a.config.Commit, a.config.Clock.Now())
	a.alerts, err = alerts.New(docs.Alerts, a.metrics.Gatherer(), a.servers.ID().String())
	return err
}

// watch evaluates the alerts of docs/alerts.yaml, and says to all that this server is there, until ctx ends. Then it takes this
// server's row away.
func (a *App) watch(ctx context.Context) {
	var trouble string // which is logged once
	look := func() {
		said := ""
		err := panics.Try(func() error { return a.look(ctx, a.config.Clock.Now()) })
		if err != nil && ctx.Err() == nil {
			if said = err.Error(); said != trouble {
				a.logger.Warn("watch", "cause", err)
			}
		}
		trouble = said
	}
	look()
	every(ctx, alerts.Interval, look)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Limits.Leave)
	defer cancel()
	if err := a.servers.Deregister(leaving); err != nil {
		a.logger.Warn("watch", "cause", err)
	}
}

// look takes one look at this server's metrics, and at the other servers. Where nobody knows of these, they are as they were: else a
// database that is away for a moment would end the alert of a server that is down.
func (a *App) look(ctx context.Context, now time.Time) error {
	asking, cancel := context.WithTimeout(ctx, a.config.Limits.Probe)
	defer cancel()
	list, err := a.servers.List(asking)
	if err == nil {
		a.others = map[string]bool{}
	}
	for _, server := range list {
		a.others[server.ID.String()] = !server.Lost()
	}
	if failure := a.alerts.Evaluate(ctx, now, a.others); failure != nil {
		err = failure
	}
	writing, cancel := context.WithTimeout(ctx, a.config.Limits.Probe)
	defer cancel()
	if failure := a.servers.Heartbeat(writing, a.alerts.Firing()); failure != nil {
		err = failure
	}
	return err
}
