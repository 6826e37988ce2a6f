package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// mergeEvery is how often a server looks for changes whose window is over.
	mergeEvery = time.Second
	// mergeBatch is how many connections' changes become events then, so that those of a large import are spread.
	mergeBatch = 500
)

// Run delivers events and merges changes of activity until ctx ends, and then within a few seconds ends what runs. Any
// number of servers may run on one database. It returns an error only when it could not begin.
func (w *Webhooks) Run(ctx context.Context) error {
	if err := w.jobs.Start(ctx); err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	var work sync.WaitGroup
	work.Go(func() { w.mergeRegularly(ctx) })
	<-w.jobs.Stopped()
	work.Wait()
	w.sender.client.CloseIdleConnections()
	return nil
}

func (w *Webhooks) mergeRegularly(ctx context.Context) {
	ticker := time.NewTicker(mergeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := w.merge(ctx); err != nil && ctx.Err() == nil {
				w.logger.Error("changes of activity could not be merged", "cause", err)
			}
		}
	}
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns how many connections that were.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	return w.store.merge(ctx, w.window, mergeBatch)
}
