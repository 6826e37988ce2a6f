package webhook

import (
	"context"
	"sync"
	"time"
)

const (
	// mergeEvery is how often a server looks for changes whose window is over.
	mergeEvery = time.Second
	// mergeBatch is how many connections' changes become events then, so that those of a large import are spread.
	mergeBatch = 500
	// startEvery is how often a server tries to begin, where the database is away at its start.
	startEvery = 5 * time.Second
)

// Run delivers events and merges changes of activity until ctx ends, and then within a few seconds ends what runs. Any
// number of servers may run on one database. Call it once.
func (w *Webhooks) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() {
		every(ctx, mergeEvery, func() bool {
			if _, err := w.merge(ctx); err != nil && ctx.Err() == nil {
				w.logger.Error("changes of activity could not be merged", "cause", err)
			}
			return true
		})
	})
	every(ctx, startEvery, func() (again bool) {
		err := w.jobs.Start(ctx)
		if err != nil && ctx.Err() == nil {
			w.logger.Error("the delivery of webhooks could not begin", "cause", err)
		}
		return err != nil
	})
	if stopped := w.jobs.Stopped(); stopped != nil {
		<-stopped
	}
	work.Wait()
	w.sender.client.CloseIdleConnections()
}

// every calls act, now and then at intervals, until it does not want to be called again or ctx ends.
func every(ctx context.Context, interval time.Duration, act func() (again bool)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for act() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns how many connections that were.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	return w.store.merge(ctx, w.window, mergeBatch)
}
