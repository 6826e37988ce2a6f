package account

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
)

// Errors of users, in addition to those of [refusal].
var (
	ErrUserExists  = errors.New("a user with this id exists")
	ErrUserDeleted = errors.New("a user with this id was deleted, and ids are not used again")
	ErrEmailTaken  = errors.New("another user has this e-mail address")
)

// User has an account.
type User struct {
	ID           uuid.UUID
	Email        string    // as registered; others with the same text.AddressKey are the same
	Timezone     string    // its canonical name; decides the user's calendar day
	RegisteredOn time.Time // midnight UTC
	CreatedAt    time.Time
	Language     string // a BCP 47 tag of the pages of the last sign-in, or empty if unknown
}

// Zone is the user's time zone, UTC if it is unknown.
func (u User) Zone() *time.Location { return timezone.Location(u.Timezone) }

func userOf(row accountdb.User) User {
	return User{
		ID: row.UserID, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn, CreatedAt: row.CreatedAt,
		Language: postgres.Value(row.Language),
	}
}

// The errors of each field.
var (
	errUserID       = &refusal.FieldError{Field: "user_id", Problem: "must be a UUID, and not the nil UUID"}
	errEmail        = &refusal.FieldError{Field: "email", Problem: "must be an address such as name@example.com, at most 254 bytes"}
	errTimezone     = &refusal.FieldError{Field: "timezone", Problem: "must be a name of the time zone database such as Europe/Berlin"}
	errRegisteredOn = &refusal.FieldError{Field: "registered_on", Problem: "must be a date from 1900-01-01 to 9999-12-31"}
)

// wrong returns the errors of the fields that are not nil.
func (c UserChange) wrong() (wrong []*refusal.FieldError) {
	if c.Email != nil && !text.IsAddress(*c.Email) {
		wrong = append(wrong, errEmail)
	}
	if c.Timezone != nil {
		if _, ok := timezone.Canonical(*c.Timezone); !ok {
			wrong = append(wrong, errTimezone)
		}
	}
	if c.RegisteredOn != nil && (c.RegisteredOn.Year() < 1900 || c.RegisteredOn.Year() > 9999) {
		wrong = append(wrong, errRegisteredOn)
	}
	return wrong
}

// check returns the first error of the fields that are not nil.
func (c UserChange) check() error {
	if wrong := c.wrong(); len(wrong) > 0 {
		return wrong[0]
	}
	return nil
}

// GetUser returns a user by id. Error: refusal.ErrUserNotFound.
func (a *Accounts) GetUser(ctx context.Context, id uuid.UUID) (User, error) {
	row, err := a.queries.GetUser(ctx, id)
	return userOf(row), postgres.WrapNoRows("account: get user", err, refusal.ErrUserNotFound)
}

// FindUser returns a user by email address, in any case and either spelling of its domain. Error: refusal.ErrUserNotFound.
func (a *Accounts) FindUser(ctx context.Context, email string) (User, error) {
	if !text.IsAddress(email) {
		return User{}, refusal.ErrUserNotFound
	}
	id, err := a.queries.GetUserOfAddress(ctx, text.AddressKey(email))
	if err != nil {
		return User{}, postgres.WrapNoRows("account: find user", err, refusal.ErrUserNotFound)
	}
	return a.GetUser(ctx, id)
}

// ListUsers returns at most limit users after an id, ordered by id. uuid.Nil is before the first.
func (a *Accounts) ListUsers(ctx context.Context, after uuid.UUID, limit int32) ([]User, error) {
	rows, err := a.queries.ListUsers(ctx, accountdb.ListUsersParams{After: after, RowLimit: limit})
	return postgres.Map(rows, userOf), postgres.Wrap("account: list users", err)
}
