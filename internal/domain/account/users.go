package account

import (
	"cmp"
	"context"
	"errors"
	"time"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NewUser is the user that CreateUser adds.
type NewUser struct {
	ID           uuid.UUID // uuid.Nil: a new one
	Email        string    // at most 254 bytes
	Timezone     string    // a name that timezone.Canonical knows; the canonical one is stored
	RegisteredOn time.Time // only its date counts; years 1900 to 9999
}

// uniqueAddress is the constraint that refuses another user's address.
const uniqueAddress = "user_addresses_pkey"

// CreateUser adds a user. Errors: refusal.Field, ErrUserExists, ErrUserDeleted, ErrEmailTaken.
func (a *Accounts) CreateUser(ctx context.Context, user NewUser) (User, error) {
	if user.ID == uuid.Nil {
		user.ID = uuid.New()
	}
	user.Timezone, _ = timezone.Canonical(user.Timezone)
	user.Email = text.StoredAddress(user.Email)
	if wrong := (UserChange{&user.Email, &user.Timezone, &user.RegisteredOn}).wrong(); len(wrong) > 0 {
		return User{}, wrong[0]
	}
	if err := a.checkSendable(ctx, user.Email); err != nil {
		return User{}, err
	}
	var row accountdb.InsertUserRow
	err := postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) (err error) {
		queries := a.queries.WithTx(tx)
		row, err = queries.InsertUser(ctx, accountdb.InsertUserParams{
			UserID: user.ID, Email: user.Email, Timezone: user.Timezone, RegisteredOn: user.RegisteredOn, Actor: work.Actor(ctx),
		})
		if err != nil {
			return err
		}
		// Only now: the insert has waited for a deletion of the user that was under way.
		if deleted, err := queries.WasDeleted(ctx, user.ID); err != nil || deleted {
			return cmp.Or(err, ErrUserDeleted)
		}
		return queries.InsertAddress(ctx, accountdb.InsertAddressParams{Address: text.AddressKey(user.Email), UserID: user.ID, Email: user.Email})
	})
	switch {
	case postgres.Violates(err, "users_pkey"):
		return User{}, ErrUserExists
	case errors.Is(err, ErrUserDeleted):
		return User{}, ErrUserDeleted
	case postgres.Violates(err, uniqueAddress):
		return User{}, ErrEmailTaken
	}
	return userOf(accountdb.User(row)), postgres.Wrap("account: create user", err)
}

// UserChange holds the new values of a user's fields; nil leaves one as it is. The rules are those of [NewUser].
type UserChange struct {
	Email        *string    // another one ends the codes, sessions, known browsers and undecided requests of the former address
	Timezone     *string    // from now on; the first readable day of existing connections stays
	RegisteredOn *time.Time // from now on the first readable day of steps, for existing connections too
}

// ChangeUser changes a user and returns the changed user. Errors: refusal.Field, refusal.ErrUserNotFound, ErrEmailTaken.
//
// It locks the user's row while an address changes, so that concurrent changes follow each other. An import that moves the same address
// may deadlock with it. Then the change is repeated.
func (a *Accounts) ChangeUser(ctx context.Context, id uuid.UUID, change UserChange) (user User, err error) {
	if change.Timezone != nil {
		name, _ := timezone.Canonical(*change.Timezone)
		change.Timezone = &name
	}
	if change.Email != nil {
		change.Email = new(text.StoredAddress(*change.Email))
		if err := a.checkSendable(ctx, *change.Email); err != nil {
			return User{}, err
		}
	}
	if wrong := change.wrong(); len(wrong) > 0 {
		return User{}, wrong[0]
	}
	err = postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		if change.Email != nil {
			if err := a.changeAddress(ctx, tx, id, *change.Email); err != nil {
				return err
			}
		}
		row, err := queries.UpdateUser(ctx, accountdb.UpdateUserParams{
			UserID: id, Email: change.Email, Timezone: change.Timezone, RegisteredOn: change.RegisteredOn, Actor: work.Actor(ctx),
		})
		user = userOf(accountdb.User(row))
		return err
	})
	if postgres.Violates(err, uniqueAddress) {
		return User{}, ErrEmailTaken
	}
	return user, postgres.WrapNoRows("account: change user", err, refusal.ErrUserNotFound)
}

// changeAddress replaces the address of a user, and ends what depends on the former one. Here and elsewhere cmp.Or sends all of its
// statements: after a failed one the transaction refuses the others.
func (a *Accounts) changeAddress(ctx context.Context, tx pgx.Tx, id uuid.UUID, email string) error {
	queries := a.queries.WithTx(tx)
	former, err := queries.LockUser(ctx, id)
	if err != nil || former.Email == email { // the latter: a caller may send all fields, or the same change twice
		return err
	}
	return cmp.Or(
		a.endAccess(ctx, tx, []uuid.UUID{id}, []string{former.Email}),
		queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{Address: text.AddressKey(former.Email), UserID: id, Email: former.Email}),
		queries.InsertAddress(ctx, accountdb.InsertAddressParams{Address: text.AddressKey(email), UserID: id, Email: email}),
	)
}

// endAccess ends the pending sign-ins, the sessions, the known browsers and the undecided requests of users whose addresses change.
func (a *Accounts) endAccess(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, former []string) error {
	queries := a.queries.WithTx(tx)
	return cmp.Or(
		queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: ids, Addresses: postgres.Map(former, text.AddressKey)}),
		queries.DeleteSessionsOf(ctx, ids),
		queries.DeleteBrowsersOf(ctx, ids),
		a.settings.EndRequests(ctx, tx, ids),
	)
}

// Endings count what a change of a user's address ends, each up to a thousand.
type Endings struct {
	Sessions int // of the account pages
	SignIns  int // pending ones
	Browsers int // that are known
}

// CountEndings returns what a change of the user's address would end now. Error: refusal.ErrUserNotFound.
func (a *Accounts) CountEndings(ctx context.Context, user User) (Endings, error) {
	sessions, err := a.queries.CountSessionsOf(ctx, user.ID)
	if err != nil {
		return Endings{}, postgres.WrapNoRows("account: count sessions", err, refusal.ErrUserNotFound)
	}
	signIns, err := a.queries.CountSignInsOf(ctx, accountdb.CountSignInsOfParams{UserID: user.ID, Address: text.AddressKey(user.Email)})
	return Endings{int(sessions.Sessions), int(signIns), int(sessions.Browsers)}, postgres.Wrap("account: count sign-ins", err)
}

// DeleteUser ends all connections of a user, as a disconnect does, and deletes everything that is stored about the user, including
// activity, in one transaction. The package comment says what the audit log keeps. It returns how many connections it ended. Error:
// refusal.ErrUserNotFound.
//
// It holds the lock of the user's row, which every statement that adds a row of the user needs.
func (a *Accounts) DeleteUser(ctx context.Context, id uuid.UUID) (connections int64, err error) {
	err = postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		email, err := queries.LockUserToDelete(ctx, id)
		if err != nil {
			return err
		}
		connections, err = a.settings.EndConnections(ctx, tx, id)
		key := text.AddressKey(email)
		return cmp.Or(
			err,
			queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: []uuid.UUID{id}, Addresses: []string{key}}),
			queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{Address: key, UserID: id, Email: email}),
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
