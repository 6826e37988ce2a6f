package client

import (
	"context"
	"errors"
	"strings"
	"time"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// costly are the acts on a client that cost others something, by their actions in the audit log.
var costly = map[string]struct {
	hourly int    // how often the client's own people do it within an hour; 0: as often as they like
	tells  string // what the email to the client's contact is about, if they have done it; empty: none is sent
}{
	"client.secret_replaced": {6, "client_secret"},
	"webhook.secret_rotated": {6, "webhook_secret"},
	"webhook.tested":         {30, ""}, // asks an address of their choice
	"webhook.created":        {0, "webhook_address"},
	"webhook.url_set":        {0, "webhook_address"},
	"webhook.removed":        {0, "webhook_removed"},
}

// moreOfOperators is how many times the budget of a client's own people operators have, who share none with them.
const moreOfOperators = 10

// Costly makes an act on a client in a transaction, which also writes the act's audit entry, whose action names it. Within any hour all servers
// together make as many as its budget allows: the entries count. Acts of the actor system have no budget. If the client's own people act, its contact gets
// an email: at once about the first act within an hour, and then one about all that follow. Errors: refusal.OverBudget, and that of act, after
// which nothing has changed.
func (r *Registry) Costly(ctx context.Context, id uuid.UUID, action string, act func(pgx.Tx) error) error {
	unlock, err := r.acts.Lock(ctx, id) // acts at the same moment wait here, and not on connections
	if err != nil {
		return err
	}
	defer unlock()
	kind, actor := costly[action], work.Actor(ctx)
	own := strings.HasPrefix(actor, "partner:")
	earlier := clientdb.FindEarlierActParams{ClientID: id, Action: action, Actor: actor}
	return postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		hasContact, err := queries.LockForAct(ctx, id)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) { // of a client that is unknown, act says so
			return err
		}
		if kind.hourly > 0 && actor != work.System {
			earlier.Skipped = int32(kind.hourly - 1) //nolint:gosec // small
			if !own {
				earlier.Skipped = int32(kind.hourly*moreOfOperators - 1) //nolint:gosec // small
			}
			switch spent, err := queries.FindEarlierAct(ctx, earlier); {
			case err == nil:
				return refusal.OverBudget{Until: spent.Until, Wait: time.Duration(spent.Seconds * float64(time.Second))}
			case !errors.Is(err, pgx.ErrNoRows):
				return err
			}
		}
		if own && hasContact && kind.tells != "" {
			if err := tellContact(ctx, queries, earlier, kind.tells); err != nil {
				return err
			}
		}
		return act(tx)
	})
}

// tellContact adds the email about an act, or what it says to that of an earlier one.
func tellContact(ctx context.Context, queries *clientdb.Queries, earlier clientdb.FindEarlierActParams, what string) error {
	merged, err := queries.MergeNotice(ctx, clientdb.MergeNoticeParams{ClientID: earlier.ClientID, Actor: earlier.Actor, What: what})
	if err != nil || merged > 0 {
		return err
	}
	told, delay := earlier, time.Duration(0)
	told.Skipped = 0
	switch _, err := queries.FindEarlierAct(ctx, told); {
	case err == nil:
		delay = time.Hour
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	return queries.TellContact(ctx, clientdb.TellContactParams{ClientID: earlier.ClientID, Actor: earlier.Actor, What: what, Delay: delay})
}
