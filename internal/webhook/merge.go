package webhook

import (
	"context"
	"sync"
	"time"
)

const (
	// mergeInterval is how often a server looks for changes whose window is over.
	mergeInterval = time.Second
	// mergeBatch is how many connections' changes become events then, so that those of a large import are spread.
	mergeBatch = 500
)

// Run delivers events and merges changes of activity until ctx ends, then gives the attempts in flight a few seconds. Any
// number of servers may run on one database. Call it once.
func (w *Webhooks) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { w.mergeRegularly(ctx) })
	w.deliverDue(ctx)
	work.Wait()
	w.sender.client.CloseIdleConnections()
}

func (w *Webhooks) mergeRegularly(ctx context.Context) {
	ticker := time.NewTicker(mergeInterval)
	defer ticker.Stop()
	for {
		if _, err := w.merge(ctx); err != nil && ctx.Err() == nil {
			w.logger.Error("changes of activity could not be merged", "cause", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
