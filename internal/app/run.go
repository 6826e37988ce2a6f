package app

import (
	"connect-svc/internal/postgres"
	"context"
	"github.com/jackc/pgx/v5"
	"sync"
	"time"
)

// How long stopping may take. Running requests finish first, then the emails that are on their way to the mail server. In
// all it stays below the fifteen seconds after which a supervisor may kill the process.
const (
	drainTimeout = 10 * time.Second
	stopTimeout  = 14 * time.Second
)

// sweepEvery is how often expired rows are deleted. Nothing depends on it: an expired row is refused all the same.
const sweepEvery = time.Minute

// Run serves until ctx ends or a listener fails. Then it accepts nothing more, finishes running requests and the emails
// on their way, and closes everything. It returns the failure of a listener, and nil when it was asked to stop.
func (a *App) Run(ctx context.Context) error {
	// Background work outlives ctx: requests that finish may still need it.
	background, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer endBackground()
	var work sync.WaitGroup
	work.Go(func() { a.Accounts.Run(background) })
	work.Go(func() { a.sweepRegularly(background) })
	work.Go(func() { a.Usage.Run(background) })
	// The delivery of webhooks ends with ctx: pending events wait for another server, or for the next start.
	delivering, endDelivering := context.WithCancel(ctx)
	defer endDelivering()
	work.Go(func() { a.Webhooks.Run(delivering) })
	work.Go(func() { a.replicas.Run(background) })

	failures := make(chan error, 2)
	for _, s := range []*server{a.public, a.private} {
		work.Go(func() {
			if err := s.run(); err != nil {
				failures <- err
			}
		})
	}
	a.logger.Info("serving", "public", a.PublicAddr().String(), "private", a.PrivateAddr().String())

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failures:
	}
	a.logger.Info("stopping")
	endDelivering()
	a.stop(&work, endBackground)
	a.logger.Info("stopped")
	return failure
}

// stop ends everything in order, within the time limits. The private listener outlives the public one, so that readiness
// can say no while requests run.
func (a *App) stop(work *sync.WaitGroup, endBackground context.CancelFunc) {
	a.stopping.Store(true)
	limit, cancel := context.WithTimeout(context.Background(), a.stopTimeout)
	defer cancel()
	running, cancelRunning := context.WithTimeout(limit, a.drainTimeout)
	defer cancelRunning()
	a.public.drain(running, a.logger)
	a.private.drain(running, a.logger)
	endBackground()

	done := make(chan struct{})
	go func() {
		work.Wait()
		a.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-limit.Done(): // an email or a statement that hangs: the process ends without it
		a.logger.Warn("work was broken off")
	}
}

// sweepRegularly sweeps until ctx ends.
func (a *App) sweepRegularly(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.sweep(ctx)
		}
	}
}

// sweep deletes what has expired, unless another server does so just now. What fails is attempted again the next time.
func (a *App) sweep(ctx context.Context) {
	if err := postgres.InTurn(ctx, a.Pool, postgres.TurnSweep, func(pgx.Tx) error {
		for domain, sweep := range map[string]func(context.Context) error{
			"oauth":   a.OAuth.Sweep,
			"account": a.Accounts.Sweep,
			"usage":   a.Usage.Sweep,
			"webhook": a.Webhooks.Sweep,
			"audit":   a.audit.Sweep,
		} {
			if err := sweep(ctx); err != nil && ctx.Err() == nil {
				a.logger.Error("sweep", "domain", domain, "cause", err)
			}
		}
		return nil
	}); err != nil && ctx.Err() == nil {
		a.logger.Error("sweep", "cause", err)
	}
}
