package account

import (
	"context"
	"errors"
	"sync"
	"time"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// addressPage is how many addresses are read at a time.
const addressPage = 1000

// UnusableAddresses are users who cannot sign in.
//
// until 1.3.0: this program compares addresses more strictly than release 1.0.0, which stored theirs.
type UnusableAddresses struct {
	Shared  []uuid.UUID // another user is found by the address
	Invalid []uuid.UUID // the address is not valid any more, such as one whose domain is not the name of a host
}

// add adds the user of an address that is not valid.
func (u *UnusableAddresses) add(row accountdb.UserAddress) (valid bool) {
	if valid = text.IsAddress(row.Email); !valid {
		u.Invalid = append(u.Invalid, row.UserID)
	}
	return valid
}

// KeyAddresses gives the addresses of users the keys that this program finds them by, and removes addresses whose users were deleted or have got
// another address in the meantime.
//
// until 1.3.0: programs of 1.0.0, which may run beside this one, write what the database's lower() makes of an address, and remove no other key.
// lower() differs for some addresses that are not ASCII, and in Turkish locales.
//
// It returns the users whose addresses cannot be used. Nothing of theirs changes, until an operator gives them another address or deletes them.
// It reads the few addresses that are unusual, by their index. Each address is an act of its own, so that the servers of a database may all do
// this at any time.
func (a *Accounts) KeyAddresses(ctx context.Context) (unusable UnusableAddresses, err error) {
	err = a.unusualAddresses(ctx, func(rows []accountdb.UserAddress) error {
		users, err := a.queries.ListEmails(ctx, postgres.Map(rows, func(row accountdb.UserAddress) uuid.UUID { return row.UserID }))
		if err != nil {
			return err
		}
		current := make(map[uuid.UUID]string, len(users))
		for _, user := range users {
			current[user.UserID] = user.Email
		}
		for _, row := range rows {
			if current[row.UserID] != row.Email {
				if err := a.removeFormer(ctx, row); err != nil {
					return err
				}
				continue
			}
			key := text.AddressKey(row.Email)
			if !unusable.add(row) || key == row.Address {
				continue
			}
			_, err := a.queries.MoveAddress(ctx, accountdb.MoveAddressParams{Key: key, Address: row.Address, UserID: row.UserID})
			if postgres.Violates(err, uniqueAddress) {
				unusable.Shared = append(unusable.Shared, row.UserID)
				err = nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return unusable, postgres.Wrap("account: give addresses their keys", err)
}

// UnusableAddresses returns the users whom [Accounts.KeyAddresses] would return, and changes nothing.
func (a *Accounts) UnusableAddresses(ctx context.Context) (unusable UnusableAddresses, err error) {
	err = a.unusualAddresses(ctx, func(rows []accountdb.UserAddress) error {
		for _, row := range rows {
			key := text.AddressKey(row.Email)
			if !unusable.add(row) || key == row.Address {
				continue
			}
			other, err := a.queries.GetUserOfAddress(ctx, key)
			if err == nil && other != row.UserID {
				unusable.Shared = append(unusable.Shared, row.UserID)
			}
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		return nil
	})
	return unusable, postgres.Wrap("account: addresses that cannot be used", err)
}

// unusualAddresses calls each with the addresses that are not ASCII or whose domain is an unusual one, some at a time.
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

// removeFormer removes an address that its user no longer has. It locks the user, whose address may be about to change. A missing user
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

// utf8Answer is the last answer of the mail server to whether it offers SMTPUTF8 (RFC 6531). It counts for a minute, so that the rows of a file
// do not each ask, and a mail server that begins to offer it is believed soon.
type utf8Answer struct {
	mu      sync.Mutex
	until   time.Time
	offered bool
	err     error
}

// offersUTF8 returns what [Mailer.Check] does, or has a minute ago at most. It asks for as long as limit.
func (m *Mailer) offersUTF8(ctx context.Context, limit time.Duration) (bool, error) {
	answer := &m.utf8
	answer.mu.Lock()
	defer answer.mu.Unlock()
	if time.Now().Before(answer.until) {
		return answer.offered, answer.err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	offered, err := m.Check(limited)
	if ctx.Err() == nil { // otherwise it had less time
		answer.offered, answer.err, answer.until = offered, err, time.Now().Add(time.Minute)
	}
	return offered, err
}

// Why an address is refused whose local part is not ASCII.
var (
	errNoUTF8      = refusal.Field{Path: "email", Problem: "must be ASCII before the @, because the mail server does not offer SMTPUTF8"}
	errUTF8Unknown = refusal.Field{Path: "email",
		Problem: "must be ASCII before the @ unless the mail server offers SMTPUTF8, and it could not be asked"}
	errUTF8Unasked = refusal.Field{Path: "email",
		Problem: "must be ASCII before the @ unless the mail server offers SMTPUTF8; it is asked if CONNECT_SMTP_URL names it"}
)

// checkSendable refuses a valid address that the mail server would not take. Error: refusal.Field.
func (a *Accounts) checkSendable(ctx context.Context, email string) error {
	if !text.NeedsSMTPUTF8(email) || !text.IsAddress(email) {
		return nil
	}
	if a.mailer == nil { // at the command line
		return errUTF8Unasked
	}
	switch offered, err := a.mailer.offersUTF8(ctx, a.settings.Limits.Probe); {
	case err != nil:
		return errUTF8Unknown
	case !offered:
		return errNoUTF8
	}
	return nil
}
