package webhook

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/work"
)

const (
	// mergeInterval is the pause after a merge. If more changes are due, it is mergePause times as long as the merge took, so that those of
	// a large import are spread.
	mergeInterval = time.Second
	mergePause    = 2
	// mergeBatch is the number of connections whose changes become events at one time.
	mergeBatch = 500
)

// mergeChanges merges changes when a poll has found some whose window is over.
func (w *Webhooks) mergeChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		n, began := 0, time.Now()
		err := work.Try(func() (err error) {
			n, err = w.merge(ctx)
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			w.logger.Error("changes of activity could not be merged", "cause", err)
		case n > 0:
			w.Wake()
		}
		pause := mergeInterval
		if n >= mergeBatch {
			pause = min(pause, mergePause*time.Since(began))
		}
		if !work.Pause(ctx, pause) {
			return
		}
		select {
		case <-w.changed: // by a poll before the end of this merge; the next poll knows better
		default:
		}
		if n >= mergeBatch {
			signal(w.changed)
		}
	}
}

// merge makes events of the changes of up to mergeBatch connections whose oldest change is older than the window. It
// returns the number of connections.
func (w *Webhooks) merge(ctx context.Context) (connections int, err error) {
	rows, err := w.look(ctx, nil, 0, 4*mergeBatch)
	if err != nil {
		return 0, err
	}
	type connection struct{ user, client uuid.UUID }
	taken := map[connection]bool{}
	var merging []webhookdb.LookForWorkRow
	for _, row := range rows {
		if c := (connection{row.UserID, row.ClientID}); len(taken) < mergeBatch && !taken[c] {
			taken[c] = true
			merging = append(merging, row)
		}
	}
	var merged atomic.Int64
	err = inParts(merging, func(users, _ []uuid.UUID) error {
		n, err := w.queries.MergeWebhookChanges(ctx, webhookdb.MergeWebhookChangesParams{
			UserIds: users, WindowLength: w.window, Expected: w.pool.Expected(),
		})
		merged.Add(n)
		return err
	})
	return int(merged.Load()), err
}
