package account

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	_ "time/tzdata" // a machine without a time zone database knows the users' time zones all the same
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Errors of users. InvalidUserError is the other one.
var (
	ErrUserNotFound = errors.New("no such user")
	ErrUserExists   = errors.New("a user with this id exists")
	ErrUserDeleted  = errors.New("a user with this id was deleted, and ids are not used again")
	ErrEmailTaken   = errors.New("another user has this e-mail address")
)

// InvalidUserError says which field of a user was refused, and what is accepted.
type InvalidUserError struct {
	Field  string // email, timezone or registered_on
	Wanted string
}

func (e *InvalidUserError) Error() string { return e.Field + ": want " + e.Wanted }

// User is somebody with an account.
type User struct {
	ID           uuid.UUID
	Email        string    // as it was typed; addresses that differ in nothing but case are the same
	Timezone     string    // of the time zone database; decides the user's calendar day
	RegisteredOn time.Time // midnight UTC
	CreatedAt    time.Time
}

// NewUser is what CreateUser needs to know.
type NewUser struct {
	ID           uuid.UUID // uuid.Nil: a new one
	Email        string    // at most 254 bytes
	Timezone     string    // such as Europe/Berlin, known to Go and to PostgreSQL
	RegisteredOn time.Time // the date of it counts; years 1900 to 9999
}

// CreateUser adds a user. Errors: *InvalidUserError, ErrUserExists, ErrUserDeleted, ErrEmailTaken.
func (a *Accounts) CreateUser(ctx context.Context, user NewUser) (User, error) {
	if user.ID == uuid.Nil {
		user.ID = uuid.New()
	}
	if err := checkEmail(user.Email); err != nil {
		return User{}, err
	}
	year, month, day := user.RegisteredOn.Date()
	user.RegisteredOn = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	if year < 1900 || year > 9999 {
		return User{}, &InvalidUserError{"registered_on", "a date from 1900-01-01 to 9999-12-31"}
	}
	if err := a.checkTimezone(ctx, user.Timezone); err != nil {
		return User{}, err
	}
	return a.store.insertUser(ctx, user)
}

// UserChange is what is to be another for a user; nil stays as it is. The rules are those of [NewUser].
type UserChange struct {
	Email    *string // codes that went to the former address, and sessions of it, stop working
	Timezone *string // decides days from now on; what was consented to stays as it is
}

// ChangeUser changes a user and returns what the user is now. Errors: *InvalidUserError, ErrUserNotFound, ErrEmailTaken.
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
	return a.store.changeUser(ctx, id, change)
}

func checkEmail(text string) error {
	if !validEmail(text) {
		return &InvalidUserError{"email", "an address such as name@example.com, at most 254 bytes"}
	}
	return nil
}

func (a *Accounts) checkTimezone(ctx context.Context, name string) error {
	known, err := a.knowsTimezone(ctx, name)
	if err != nil {
		return fmt.Errorf("account: look up the time zone: %w", err)
	}
	if !known {
		return &InvalidUserError{"timezone", "a name of the time zone database such as Europe/Berlin"}
	}
	return nil
}

// knowsTimezone asks both who will calculate with the time zone. Go takes "" for UTC and "Local" for the machine's
// own; PostgreSQL's list has neither.
func (a *Accounts) knowsTimezone(ctx context.Context, name string) (bool, error) {
	// Names that not every machine's database has, or that mean another zone on each.
	for _, prefix := range []string{"posix/", "right/", "posixrules", "localtime"} {
		if strings.HasPrefix(name, prefix) {
			return false, nil
		}
	}
	if name == "" || name == "Local" || strings.ContainsRune(name, 0) {
		return false, nil
	}
	if _, err := time.LoadLocation(name); err != nil {
		return false, nil
	}
	return a.store.knowsTimezone(ctx, name)
}

// GetUser finds a user by id. Error: ErrUserNotFound.
func (a *Accounts) GetUser(ctx context.Context, id uuid.UUID) (User, error) {
	return a.store.getUser(ctx, id)
}

// DeleteUser ends all connections of a user, as a disconnect does, and then removes everything that is known of the
// user, recorded activity too; what the audit log keeps is in the comment of the package. All of it happens or nothing.
// It returns how many connections were ended. Error: ErrUserNotFound.
func (a *Accounts) DeleteUser(ctx context.Context, id uuid.UUID) (connections int64, err error) {
	return a.store.deleteUser(ctx, id, a.settings.EndConnections)
}

// ListUsers returns users in the order of their ids, at most limit of them, those after the given id; uuid.Nil starts
// at the first.
func (a *Accounts) ListUsers(ctx context.Context, after uuid.UUID, limit int32) ([]User, error) {
	return a.store.listUsers(ctx, after, limit)
}

// validEmail accepts a bare address (RFC 5322, addr-spec) within the lengths of RFC 5321, section 4.5.3.1. What needs
// quotes or a numeric host is refused: nobody signs in with it, and it is where parsers disagree.
func validEmail(text string) bool {
	if len(text) > 254 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return false
	}
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text {
		return false
	}
	at := strings.LastIndexByte(text, '@')
	return at <= 64 && !strings.HasPrefix(text[at+1:], "[")
}
