package account

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
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

// CreateUser adds a user. Errors: *refusal.FieldError, ErrUserExists, ErrUserDeleted, ErrEmailTaken.
func (a *Accounts) CreateUser(ctx context.Context, user NewUser) (User, error) {
	if user.ID == uuid.Nil {
		user.ID = uuid.New()
	}
	user.Timezone, _ = timezone.Canonical(user.Timezone)
	user.Email = text.StoredAddress(user.Email)
	if err := (UserChange{&user.Email, &user.Timezone, &user.RegisteredOn}).check(); err != nil {
		return User{}, err
	}
	if err := a.CheckSendable(ctx, user.Email); err != nil {
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
		return queries.InsertAddress(ctx, accountdb.InsertAddressParams{Address: text.AddressKey(user.Email), UserID: user.ID, Email: user.Email})
	})
	switch {
	case postgres.Violates(err, "users_pkey"):
		return User{}, ErrUserExists
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrUserDeleted
	case postgres.Violates(err, uniqueAddress):
		return User{}, ErrEmailTaken
	}
	return userOf(accountdb.User(row)), postgres.Wrap("account: create user", err)
}
