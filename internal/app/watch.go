package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"connect-svc/docs"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// openServers prepares this server's row among the servers, and the alerts.
func (a *App) openServers() (err error) {
	a.servers = servers.New(a.Pool, a.config.Server(), a.config.Version, a.config.Commit, a.config.Clock.Now())
	a.servers.Limiter = a.limiter.Store
	a.servers.Certificates = func() (public, private *time.Time) {
		ends := map[string]*time.Time{}
		a.secured(func(name string, certificate *listener.Presented) { ends[name] = &certificate.Leaf().NotAfter })
		return ends["public"], ends["private"]
	}
	a.alerts, err = alerts.New(docs.Alerts)
	return err
}

// join looks at the clocks and puts this server into the list. Error: *[servers.LimiterError].
func (a *App) join(ctx context.Context) error {
	heartbeat := func() error {
		limited, cancel := context.WithTimeout(ctx, a.config.Limits.Probe)
		defer cancel()
		a.lookAtClock(limited)
		if ctx.Err() == nil {
			a.Pool.Clock().DoubtUnseen()
		}
		return a.servers.Heartbeat(limited, nil)
	}
	err := heartbeat()
	for errors.Is(err, servers.ErrUnsure) {
		if !work.Pause(ctx, servers.LookEvery) {
			return nil
		}
		err = heartbeat()
	}
	if conflict, ok := errors.AsType[*servers.LimiterError](err); ok {
		return conflict
	}
	if err != nil && ctx.Err() == nil {
		a.logger.Warn("join the servers", "cause", err)
	}
	return nil
}

// lookAtClock compares the clocks, which shows whether the database answers. It logs a change, and reports one of the clock.
func (a *App) lookAtClock(ctx context.Context) (changed bool) {
	before := a.servers.Clock().Doubt
	err := a.servers.LookAtClock(ctx)
	if !errors.Is(ctx.Err(), context.Canceled) { // otherwise this server stops
		a.found(ofDatabase, primary, err)
	}
	if err != nil {
		return false
	}
	doubt := a.servers.Clock().Doubt
	switch {
	case doubt != "" && before == "":
		a.logger.Error("the database's clock is not believed: nothing is decided by it", "cause", doubt)
	case doubt == "" && before != "":
		a.logger.Info("the database's clock is believed again")
	}
	return (doubt == "") != (before == "")
}

// lookAtHistory logs when the database turns out to be another one than the operator has reconciled.
func (a *App) lookAtHistory(ctx context.Context) error {
	may, err := postgres.MayLackCommits(ctx, a.Pool)
	if err == nil && !a.mayLackCommits.Swap(may) && may {
		a.logger.Warn(lackingCommits)
	}
	return err
}

// watch looks at the clocks every second, evaluates the alerts and sends this server's heartbeats, until ctx ends. Then it removes this
// server's row. It reports a *[servers.LimiterError].
func (a *App) watch(ctx context.Context, failures chan<- error) {
	failed := false // a failure is logged when it begins
	look := func() {
		err := work.Try(func() error { return a.look(ctx, a.config.Clock.Now()) })
		if conflict, ok := errors.AsType[*servers.LimiterError](err); ok {
			select {
			case failures <- conflict:
			default: // it ends already
			}
		}
		if err != nil && !failed && ctx.Err() == nil {
			a.logger.Warn("watch", "cause", err)
		}
		failed = err != nil
	}
	look()
	looked := time.Now()
	work.Every(ctx, servers.LookEvery, func() {
		limited, cancel := context.WithTimeout(ctx, a.config.Limits.Probe)
		changed := a.lookAtClock(limited)
		cancel()
		if changed || time.Since(looked) >= alerts.Interval {
			looked = time.Now()
			look()
		}
	})
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Limits.Leave)
	defer cancel()
	if err := a.servers.Deregister(leaving); err != nil {
		a.logger.Warn("watch", "cause", err)
	}
}

// look evaluates the alerts on this server's metrics and the state of the other servers. It sends a heartbeat if the alerts have
// changed, and otherwise every other time: that is all that an idle server writes. It returns the last error. While the list of
// servers cannot be read, the last list stays valid: a short outage of the database must not end the alert of a server that is down.
func (a *App) look(ctx context.Context, now time.Time) (err error) {
	act := func(do func(context.Context) error) {
		limited, cancel := context.WithTimeout(work.AnyClock(ctx), a.config.Limits.Probe)
		defer cancel()
		if failure := do(limited); failure != nil {
			err = failure
		}
	}
	act(func(ctx context.Context) error {
		list, err := a.servers.List(ctx)
		if err == nil {
			a.others, a.hosts = map[string]bool{}, map[string]bool{}
		}
		for _, server := range list {
			a.others[server.ID.String()] = !server.Lost() && !server.ClockWrong() && server.ClockBelieved
			if !server.Lost() {
				a.hosts[server.Host] = true
			}
		}
		for _, server := range servers.Down(list) { // and not replaced
			a.hosts[server.Host] = server.ID == a.servers.ID() // this one runs, although its heartbeats are refused
		}
		// The first of those that are up sweeps, by their ids, without those whose clocks keep them from it. They need no lock to agree. While their
		// lists differ, two servers may sweep, or none does.
		elsewhere := false
		for instance, up := range a.others {
			elsewhere = elsewhere || up && instance < a.servers.ID().String()
		}
		a.sweptElsewhere.Store(elsewhere)
		return err
	})
	samples, failure := a.alerts.Gather(a.metrics)
	if failure != nil {
		err = failure
	}
	act(a.lookAtHistory)
	for host, up := range a.hosts { // as Prometheus finds out when it scrapes them
		samples = append(samples, alerts.Sample{Metric: "up", Labels: alerts.Labels{"instance": host}, Value: map[bool]float64{true: 1}[up]})
	}
	a.alerts.Evaluate(now, samples)
	firing := a.alerts.Firing()
	if a.heartbeatSent && slices.Equal(firing, a.alertsSent) {
		a.heartbeatSent = false
		return err
	}
	act(func(ctx context.Context) error {
		err := a.servers.Heartbeat(ctx, firing)
		// Only a refusal of the write itself counts, as with a full disk or while PostgreSQL is read-only: whether it answers is asked every second.
		if err == nil || postgres.Is(err, postgres.ReadOnly) || postgres.Is(err, postgres.DiskFull) {
			a.found(ofWrites, primary, err)
		}
		a.heartbeatSent, a.alertsSent = err == nil, firing
		return err
	})
	return err
}
