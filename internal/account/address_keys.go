package account

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/mailbox"
	"connect-svc/internal/postgres"
)

// addressPage is how many addresses are read at a time.
const addressPage = 1000

// KeyAddresses gives the addresses of users the keys that this program finds them by. Programs of release 1.0.0, which may run beside this
// one, write what the database's lower() makes of an address: that differs for some addresses that are not ASCII, and in Turkish locales. It
// removes addresses whose users such a program has deleted or has given another address in the meantime.
//
// It returns the users who share their address with another user, as the program compares addresses now. Nothing of theirs changes: only the other
// user is found by it, until an operator gives one of them another address or deletes one. It reads the few addresses that are not ASCII, by
// their index. Each address is an act of its own, so that the servers of a database may all do this at any time.
func (a *Accounts) KeyAddresses(ctx context.Context) (sharing []uuid.UUID, err error) {
	err = a.unusualAddresses(ctx, func(rows []accountdb.UserAddress) error {
		current, err := a.emailsOf(ctx, rows)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if current[row.UserID] != row.Email {
				if err := a.removeFormer(ctx, row); err != nil {
					return err
				}
				continue
			}
			key := mailbox.Key(row.Email)
			if key == row.Address {
				continue
			}
			_, err := a.queries.MoveAddress(ctx, accountdb.MoveAddressParams{Key: key, Address: row.Address, UserID: row.UserID})
			if postgres.Violates(err, uniqueAddress) {
				sharing = append(sharing, row.UserID)
				err = nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return sharing, postgres.Wrap("account: give addresses their keys", err)
}

// SharingAddresses returns the users whom [Accounts.KeyAddresses] would return, and changes nothing.
func (a *Accounts) SharingAddresses(ctx context.Context) (sharing []uuid.UUID, err error) {
	err = a.unusualAddresses(ctx, func(rows []accountdb.UserAddress) error {
		for _, row := range rows {
			key := mailbox.Key(row.Email)
			if key == row.Address {
				continue
			}
			other, err := a.queries.GetUserOfAddress(ctx, key)
			if err == nil && other != row.UserID {
				sharing = append(sharing, row.UserID)
			}
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		return nil
	})
	return sharing, postgres.Wrap("account: addresses that users share", err)
}

// unusualAddresses calls each with the addresses that are not ASCII, some at a time.
func (a *Accounts) unusualAddresses(ctx context.Context, each func([]accountdb.UserAddress) error) error {
	for after := ""; ; {
		rows, err := a.queries.ListUnusualAddresses(ctx, accountdb.ListUnusualAddressesParams{After: after, RowLimit: addressPage})
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := each(rows); err != nil || len(rows) < addressPage {
			return err
		}
		after = rows[len(rows)-1].Address
	}
}

// emailsOf returns the present addresses of the users who have these ones.
func (a *Accounts) emailsOf(ctx context.Context, rows []accountdb.UserAddress) (map[uuid.UUID]string, error) {
	users, err := a.queries.ListEmails(ctx, postgres.Map(rows, func(row accountdb.UserAddress) uuid.UUID { return row.UserID }))
	emails := make(map[uuid.UUID]string, len(users))
	for _, user := range users {
		emails[user.UserID] = user.Email
	}
	return emails, err
}

// removeFormer removes an address if it is no longer its user's. It locks the user, whose address may be about to change. A missing user
// need not have been deleted: on a cluster one node may show a new user's address before another one shows the user.
func (a *Accounts) removeFormer(ctx context.Context, row accountdb.UserAddress) error {
	return postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		user, err := queries.LockUser(ctx, row.UserID)
		gone := err == nil && user.Email != row.Email
		if errors.Is(err, pgx.ErrNoRows) {
			gone, err = queries.WasDeleted(ctx, row.UserID)
		}
		if err != nil || !gone {
			return err
		}
		return queries.RemoveAddress(ctx, accountdb.RemoveAddressParams{Address: row.Address, UserID: row.UserID})
	})
}
