package account

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/mailbox"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
)

// Errors of users. InvalidUserError is the other one.
var (
	ErrUserExists  = errors.New("a user with this id exists")
	ErrUserDeleted = errors.New("a user with this id was deleted, and ids are not used again")
	ErrEmailTaken  = errors.New("another user has this e-mail address")
)

// InvalidUserError names the field of a user that was refused, and what is accepted.
type InvalidUserError struct {
	Field  string // email, timezone or registered_on
	Wanted string
}

func (e *InvalidUserError) Error() string { return e.Field + ": want " + e.Wanted }

// User is somebody with an account.
type User struct {
	ID           uuid.UUID
	Email        string    // as it was typed; two addresses are the same if they differ only in case
	Timezone     string    // of the time zone database; decides the user's calendar day
	RegisteredOn time.Time // midnight UTC
	CreatedAt    time.Time
}

// NewUser is the user that CreateUser adds.
type NewUser struct {
	ID           uuid.UUID // uuid.Nil: a new one
	Email        string    // at most 254 bytes
	Timezone     string    // such as Europe/Berlin, known to Go and to PostgreSQL
	RegisteredOn time.Time // only its date is used; years 1900 to 9999
}

// CreateUser adds a user. Errors: *InvalidUserError, ErrUserExists, ErrUserDeleted, ErrEmailTaken.
func (a *Accounts) CreateUser(ctx context.Context, user NewUser) (User, error) {
	if user.ID == uuid.Nil {
		user.ID = uuid.New()
	}
	if err := checkEmail(user.Email); err != nil {
		return User{}, err
	}
	var err error
	if user.RegisteredOn, err = dateOf(user.RegisteredOn); err != nil {
		return User{}, err
	}
	if err := a.checkTimezone(ctx, user.Timezone); err != nil {
		return User{}, err
	}
	return a.insertUser(ctx, user)
}

// UserChange holds the new values of a user's fields; nil leaves one as it is. The rules are those of [NewUser].
type UserChange struct {
	Email        *string    // codes, sessions and undecided requests of the former address end
	Timezone     *string    // applies from now on; the first readable day of existing connections stays
	RegisteredOn *time.Time // bounds every read of steps from now on, those of existing connections too
}

// ChangeUser changes a user and returns the user as changed. Errors: *InvalidUserError, refusal.ErrUserNotFound, ErrEmailTaken.
func (a *Accounts) ChangeUser(ctx context.Context, id uuid.UUID, change UserChange) (User, error) {
	if change.Email != nil {
		if err := checkEmail(*change.Email); err != nil {
			return User{}, err
		}
	}
	if change.Timezone != nil {
		if err := a.checkTimezone(ctx, *change.Timezone); err != nil {
			return User{}, err
		}
	}
	if change.RegisteredOn != nil {
		date, err := dateOf(*change.RegisteredOn)
		if err != nil {
			return User{}, err
		}
		change.RegisteredOn = &date
	}
	return a.changeUser(ctx, id, change)
}

// Endings are what a change of a user's address ends, each counted as far as a thousand.
type Endings struct {
	Sessions int // of the account pages
	SignIns  int // codes that were asked for and not entered yet
	Browsers int // that are known as the user's
}

// What is wanted of each field.
var (
	errEmail        = &InvalidUserError{"email", "an address such as name@example.com, at most 254 bytes"}
	errTimezone     = &InvalidUserError{"timezone", "a name of the time zone database such as Europe/Berlin"}
	errRegisteredOn = &InvalidUserError{"registered_on", "a date from 1900-01-01 to 9999-12-31"}
)

func checkEmail(text string) error {
	if !mailbox.Valid(text) {
		return errEmail
	}
	return nil
}

// dateOf is the date of a time, as the database has it: midnight UTC.
func dateOf(t time.Time) (time.Time, error) {
	year, month, day := t.Date()
	if year < 1900 || year > 9999 {
		return time.Time{}, errRegisteredOn
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC), nil
}

func (a *Accounts) checkTimezone(ctx context.Context, name string) error {
	known, err := a.timezones.known(ctx, a.listTimezones)
	if err != nil {
		return err
	}
	if !known[name] {
		return errTimezone
	}
	return nil
}

// GetUser finds a user by id. Error: refusal.ErrUserNotFound.
func (a *Accounts) GetUser(ctx context.Context, id uuid.UUID) (User, error) {
	row, err := a.queries.GetUser(ctx, id)
	return userOf(row), postgres.WrapNoRows("account: get user", err, refusal.ErrUserNotFound)
}

// FindUser finds a user by their e-mail address, in any case. Error: refusal.ErrUserNotFound.
func (a *Accounts) FindUser(ctx context.Context, email string) (User, error) {
	if !mailbox.Valid(email) {
		return User{}, refusal.ErrUserNotFound
	}
	id, err := a.queries.GetUserOfAddress(ctx, email)
	if err != nil {
		return User{}, postgres.WrapNoRows("account: find user", err, refusal.ErrUserNotFound)
	}
	return a.GetUser(ctx, id)
}
