package app

import (
	"context"
	"math"
	"os"
	"sync"
	"time"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/work"
	"github.com/KimMachineGun/automemlimit/memlimit"
)

// sweepEvery is the interval between deletions of expired rows. Nothing depends on it, because expired rows are refused anyway.
const sweepEvery = time.Minute

// sweepStep is the most time whose expired rows a sweep deletes, because the database's clock may have jumped. It exceeds sweepEvery, so
// that sweeps catch up after the servers were stopped.
const sweepStep = 2 * sweepEvery

// Run serves until ctx ends or a listener fails. When ctx ends, /readyz becomes 503, and Run serves everything for the drain delay, in
// which load balancers notice. Then it accepts nothing new, finishes running requests and emails that are being sent, and closes
// everything. It returns the error of a listener, a [servers.LimiterError], or nil if ctx ended.
func (a *App) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	if !a.config.ReadOnly {
		if err := a.join(ctx); err != nil {
			a.Close()
			return err
		}
		limited, cancel := context.WithTimeout(ctx, a.config.Limits.Probe)
		_ = a.lookAtHistory(limited) // before anything is sent; watch asks again
		cancel()
	}
	// Background work outlives ctx, because running requests may need it.
	background, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer endBackground()
	var tasks sync.WaitGroup
	start := func(ctx context.Context, name string, run func(context.Context)) {
		if !a.config.ReadOnly || name == "certificates" { // everything else sends, deletes or writes
			tasks.Go(func() { work.Restart(ctx, a.logger, name, run) })
		}
	}
	start(background, "emails", a.Accounts.Run)
	start(background, "addresses", func(ctx context.Context) {
		a.keyAddresses(ctx)
		work.Every(ctx, keyEvery, func() { a.keyAddresses(ctx) })
	})
	start(background, "names", func(ctx context.Context) {
		keyNames := func() {
			if err := work.Try(func() error { return a.Clients.KeyNames(ctx) }); err != nil && ctx.Err() == nil {
				a.logger.Error("look-alikes of partners' names", "cause", err)
			}
		}
		keyNames()
		work.Every(ctx, keyEvery, keyNames)
	})
	start(background, "sweep", func(ctx context.Context) { work.Every(ctx, sweepEvery, func() { a.sweepNext(ctx) }) })
	counting, endCounting := context.WithCancel(context.WithoutCancel(ctx))
	defer endCounting()
	delivered, endDelivered := context.WithCancel(context.WithoutCancel(ctx))
	start(background, "reads", func(ctx context.Context) { a.OAuth.Run(ctx); <-delivered.Done(); endCounting() }) // the last reads and deliveries are counted, too
	start(counting, "usage", a.Usage.Run)
	start(background, "days", a.foldDays)
	start(background, "lapses", func(ctx context.Context) {
		work.Every(ctx, lapseEvery, func() { // another server does it, or a clock is wrong: then it waits
			if a.sweptElsewhere.Load() || a.servers.Clock().Wrong() {
				return
			}
			if err := work.Try(func() error { return a.OAuth.TellLapses(ctx) }); err != nil && ctx.Err() == nil {
				a.logger.Error("users wait to be told of lapsed connections", "cause", err)
			}
		})
	})
	// The delivery of webhooks ends earlier: pending events wait for another server, or for the next start.
	delivering, endDelivering := context.WithCancel(background)
	defer endDelivering()
	start(delivering, "webhooks", func(ctx context.Context) { defer endDelivered(); a.Webhooks.Run(ctx) })
	start(background, "replicas", a.Replicas.Run)
	start(background, "certificates", func(ctx context.Context) {
		work.Every(ctx, a.certificateInterval, func() {
			a.secured(func(_ string, certificate *listener.Presented) { certificate.Refresh(false) })
		})
	})
	failures := make(chan error, 1+len(a.listeners()))
	// The mail server may stop together with the service.
	start(ctx, "limiter", func(ctx context.Context) {
		a.attend(ctx, ofLimiter, map[bool]string{true: "PostgreSQL", false: "Redis"}[a.config.LimiterURL == ""], limiterEvery, a.config.Limits.Probe, a.limiter.Check)
	})
	start(ctx, "mail server", func(ctx context.Context) {
		a.attend(ctx, ofMail, a.config.Mailer.Server(), mailEvery, a.config.Limits.MailSend/4, a.Accounts.CheckMailServer)
	})
	start(ctx, "disk", func(ctx context.Context) {
		a.lookAtDisk(ctx)
		work.Every(ctx, diskEvery, func() { a.lookAtDisk(ctx) })
	})
	start(background, "watch", func(ctx context.Context) { a.watch(ctx, failures) })
	for _, s := range a.listeners() {
		tasks.Go(func() {
			if err := work.Try(s.Run); err != nil {
				failures <- err
			}
		})
	}
	public := "none: the server is read-only"
	if !a.config.ReadOnly {
		public = a.PublicAddr().String()
	}
	about := []any{"public", public, "private", a.PrivateAddr().String(),
		"version", a.config.Version, "commit", a.config.Commit, "memory_limit_bytes", a.config.Memory}
	if a.probing != nil {
		about = append(about, "ready", a.ReadyAddr().String())
	}
	a.logger.Info("serving", about...)

	var failure error
	select {
	case <-ctx.Done():
		failure = a.drain(failures)
	case failure = <-failures:
	}
	a.logger.Info("stopping")
	end() // a listener may have failed
	endDelivering()
	a.stop(&tasks, endBackground)
	a.logger.Info("stopped")
	return failure
}

// drain serves for the drain delay, or until a listener fails. Meanwhile /readyz and each answer (see closing) tell callers to send
// requests elsewhere, so that none are on their way when the listeners close.
func (a *App) drain(failures <-chan error) error {
	a.stopping.Store(true)
	if a.config.DrainDelay == 0 {
		return nil
	}
	a.logger.Info("draining", "seconds", a.config.DrainDelay.Seconds())
	select {
	case <-time.After(a.config.DrainDelay):
	case failure := <-failures:
		return failure
	}
	return nil
}

// stop ends everything in order, within time limits that are below the fifteen seconds after which a supervisor may kill the process.
// The public listener ends first, so that /readyz still answers while requests run.
func (a *App) stop(tasks *sync.WaitGroup, endBackground context.CancelFunc) {
	a.stopping.Store(true)
	limit, cancel := context.WithTimeout(context.Background(), a.config.Limits.Stop)
	defer cancel()
	running, cancelRunning := context.WithTimeout(limit, a.config.Limits.Drain)
	defer cancelRunning()
	for _, s := range a.listeners() {
		s.Drain(running)
	}
	endBackground()

	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := work.Try(func() error { tasks.Wait(); a.Close(); return nil }); err != nil {
			a.logger.Error("stop", "cause", err)
		}
	}()
	select {
	case <-done:
	case <-limit.Done(): // an email or a statement hangs: the process ends anyway
		a.logger.Warn("work was broken off")
	}
}

// keyEvery is the interval between looks for addresses and names (until 1.3.0: that a server of 1.0.0 has written since).
const keyEvery = time.Hour

// keyAddresses gives addresses the keys by which this program finds them, and logs whose it cannot.
func (a *App) keyAddresses(ctx context.Context) {
	var unusable account.UnusableAddresses
	err := work.Try(func() (err error) { unusable, err = a.Accounts.KeyAddresses(ctx); return err })
	if problem := unusableAddresses(unusable, err); problem != nil && ctx.Err() == nil {
		a.logger.Error("addresses of users", "cause", problem)
	}
}

// sweepNext sweeps a step further, unless another server does or a clock is wrong.
func (a *App) sweepNext(ctx context.Context) {
	if a.sweptElsewhere.Load() || a.servers.Clock().Wrong() {
		return
	}
	before, err := a.servers.SweepUntil(ctx, sweepStep)
	if err != nil {
		a.logger.Error("sweep", "cause", err)
		return
	}
	a.Sweep(ctx, before)
}

// The pause between two folds of the days is foldShare times as long as a fold takes, from foldEvery to foldSeldom.
const (
	foldEvery  = time.Minute
	foldSeldom = 10 * time.Minute
	foldShare  = 50
)

// foldDays keeps the figures of each day, unless another server does or a clock is wrong, until ctx ends.
func (a *App) foldDays(ctx context.Context) {
	pause := 5 * time.Second // after the start
	for work.Pause(ctx, pause) {
		began := time.Now()
		if !a.sweptElsewhere.Load() && !a.servers.Clock().Wrong() {
			if err := work.Try(func() error { return a.Usage.Fold(ctx) }); err != nil && ctx.Err() == nil {
				a.logger.Error("the figures of days wait", "cause", err)
			}
		}
		pause = min(max(foldEvery, foldShare*time.Since(began)), foldSeldom)
	}
}

// lapseEvery is the interval between looks for connections that have lapsed, to tell their users.
const lapseEvery = time.Hour

// Sweep deletes rows that expired before that time. It takes no lock and writes nothing if there are none. The next sweep tries again what
// failed.
func (a *App) Sweep(ctx context.Context, before time.Time) {
	for domain, sweep := range map[string]func(context.Context, time.Time) error{
		"oauth":     a.OAuth.Sweep,
		"account":   a.Accounts.Sweep,
		"usage":     a.Usage.Sweep,
		"webhook":   a.Webhooks.Sweep,
		"audit":     a.Audit.Sweep,
		"servers":   func(ctx context.Context, _ time.Time) error { return a.servers.Sweep(ctx) },
		"operators": a.sessions.Sweep,
		"portal":    a.Portal.Sweep,
	} {
		err := work.Try(func() error { return sweep(ctx, before) })
		if err != nil && ctx.Err() == nil {
			a.logger.Error("sweep", "domain", domain, "cause", err)
		}
	}
}

// LimitMemory has Go's runtime collect garbage in time for the memory that the process may have: nine tenths of what the container
// has, which [memlimit.FromCgroup] tells, unless GOMEMLIMIT says something else. It returns that limit, 0 where there is none.
func LimitMemory(container memlimit.Provider) (bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" { // the runtime takes nothing for not set, and the library does not
		_ = os.Unsetenv("GOMEMLIMIT")
	}
	bytes, _ = memlimit.Set(memlimit.WithProvider(container)) // an error: no container, or not on Linux
	if bytes == math.MaxInt64 {
		return 0
	}
	return bytes
}
