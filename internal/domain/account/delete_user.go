package account

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
)

// DeleteUser ends all connections of a user, as a disconnect does, and deletes everything that is stored about the user, including
// activity, in one transaction. The package comment says what the audit log keeps. It returns how many connections it ended. Error:
// refusal.ErrUserNotFound.
//
// It holds the lock of the user's row, which every statement that adds a row of the user needs.
func (a *Accounts) DeleteUser(ctx context.Context, id uuid.UUID) (connections int64, err error) {
	err = postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		user, err := queries.LockUser(ctx, id)
		if err != nil {
			return err
		}
		if connections, err = a.settings.EndConnections(ctx, tx, id); err != nil {
			return err
		}
		key := text.AddressKey(user.Email)
		return cmp.Or(
			queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: []uuid.UUID{id}, Addresses: []string{key}}),
			queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{Address: key, UserID: id, Email: user.Email}),
			queries.DeleteUser(ctx, id),
			queries.DeleteNoticesOf(ctx, id),
			queries.InsertUserDeleted(ctx, accountdb.InsertUserDeletedParams{UserID: id, Connections: connections, Actor: work.Actor(ctx)}),
		)
	})
	if err != nil {
		return 0, postgres.WrapNoRows("account: delete user", err, refusal.ErrUserNotFound)
	}
	return connections, nil
}
