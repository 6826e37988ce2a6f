package webhook

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/panics"
	"connect-svc/internal/postgres"
)

// The turns of this package.
const (
	turnQueue postgres.Turn = "webhook_queue"
	turnMerge postgres.Turn = "webhook_merge"
)

// claimed is an event that this server leased, with its target.
type claimed struct {
	Event
	target target
	at     time.Time // of the claim, by this server's clock
}

// queue puts up to limit new events into the queue, and returns their number.
func (w *Webhooks) queue(ctx context.Context, limit int) (n int, err error) {
	err = postgres.InTurn(ctx, w.pool, turnQueue, func(tx pgx.Tx) error {
		rows, err := w.queries.WithTx(tx).QueueWebhookEvents(ctx, int32(limit))
		n = int(rows)
		return err
	})
	return n, err
}

// claim leases up to limit events that are due. room bounds the events of each client; of a client that is not in it, as many are
// leased as are sent at the same time.
func (w *Webhooks) claim(ctx context.Context, room map[uuid.UUID]int, limit int) ([]claimed, error) {
	roomJSON, err := json.Marshal(room)
	if err != nil {
		return nil, err
	}
	leased, err := w.queries.ClaimWebhookEvents(ctx, webhookdb.ClaimWebhookEventsParams{
		Lease: w.limits.lease(), Room: roomJSON, MaxEvents: int32(limit),
	})
	if err != nil || len(leased) == 0 {
		return nil, err
	}
	at := time.Now()
	params := webhookdb.ListClaimedParams{}
	missing := map[uuid.UUID]bool{}
	clients := map[uuid.UUID]bool{}
	for _, row := range leased {
		params.UserIds, params.EventIds = append(params.UserIds, row.UserID), append(params.EventIds, row.EventID)
		missing[row.EventID], clients[row.ClientID] = true, true
	}
	targets, err := w.targets(ctx, slices.Collect(maps.Keys(clients))...)
	if err != nil {
		return nil, err
	}
	rows, err := w.queries.ListClaimed(ctx, params)
	if err != nil {
		return nil, err
	}
	list := make([]claimed, 0, len(rows))
	for _, row := range rows {
		delete(missing, row.EventID)
		list = append(list, claimed{fromRow(row), targets[row.ClientID], at})
	}
	slices.SortFunc(list, func(a, b claimed) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if len(missing) > 0 { // deleted with a user's account
		return list, w.queries.Unqueue(ctx, slices.Collect(maps.Keys(missing)))
	}
	return list, nil
}

// release ends the leases of events. If that fails they end by themselves.
func (w *Webhooks) release(ctx context.Context, events []claimed) {
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.limits.Claim)
	defer cancel()
	ids := postgres.Map(events, func(event claimed) uuid.UUID { return event.ID })
	if err := panics.Try(func() error { return w.queries.Release(ctx, ids) }); err != nil {
		w.logger.Error("leases of webhook events could not be ended", "cause", err)
	}
}
