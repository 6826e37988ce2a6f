package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/account"
	"connect-svc/internal/api/operator"
)

type userCommands struct {
	output
	databaseSetting
	Create userCreateCommand `cmd:"" help:"Create a user." example:"connect-svc user create --email ada@example.com --timezone Europe/Berlin --registered-on 2026-01-31"`
	List   userListCommand   `cmd:"" help:"List all users." example:"connect-svc user list --output json"`
	Show   userShowCommand   `cmd:"" help:"Show one user." example:"connect-svc user show ada@example.com"`
	Update userUpdateCommand `cmd:"" help:"Change a user." detail:"A changed address ends the user's sign-ins, sessions and undecided requests. A changed time zone decides calendar days from now on: the first readable dates of connections stay. A changed registration day bounds the reads of steps at once, of existing connections too." example:"connect-svc user update 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --timezone Asia/Tokyo"`
	Delete userDeleteCommand `cmd:"" help:"Permanently delete a user, their connections and their data." example:"connect-svc user delete 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --yes"`
}

type userCreateCommand struct {
	Email        string    `required:"" help:"Address that receives the user's sign-in codes."`
	Timezone     string    `required:"" placeholder:"AREA/CITY" help:"The user's time zone, which determines the calendar day of a consent."`
	RegisteredOn date      `required:"" placeholder:"YYYY-MM-DD" help:"The user's registration day. No steps are read from before it."`
	ID           uuid.UUID `placeholder:"UUID" help:"The user's id (default: a new one)."`
}

type userIDJSON struct {
	UserID uuid.UUID `json:"user_id"`
}

func (c userCreateCommand) Run(p *program, group *userCommands, db *database) error {
	created, err := db.accounts().CreateUser(p.ctx, account.NewUser{
		ID:           c.ID,
		Email:        c.Email,
		Timezone:     c.Timezone,
		RegisteredOn: c.RegisteredOn.Time,
	})
	if err != nil {
		return err
	}
	return group.say(p, userIDJSON{created.ID}, "user id\t%s", created.ID)
}

// userJSON is a user as the operator API has it, with the instant as it is stored.
type userJSON struct {
	operatorapi.User
	CreatedAt time.Time `json:"created_at"`
}

func toUserJSON(u account.User) userJSON {
	return userJSON{operator.UserBody(u), u.CreatedAt.UTC()}
}

type userListCommand struct{}

func (userListCommand) Run(p *program, group *userCommands, db *database) error {
	rows := paged(func(after uuid.UUID) ([]account.User, error) {
		return db.accounts().ListUsers(p.ctx, after, listPage)
	}, func(u account.User) uuid.UUID { return u.ID })
	return stream(group.output, p, rows, toUserJSON, "USER ID\tE-MAIL\tTIME ZONE\tREGISTERED ON", func(w io.Writer, u account.User) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.ID, u.Email, u.Timezone, u.RegisteredOn.Format(time.DateOnly))
	})
}

// userID is the argument of the commands on one user.
type userID struct {
	ID uuid.UUID `arg:"" help:"The user's id."`
}

type userShowCommand struct {
	ID userOrEmail `arg:"" help:"The user's id or e-mail address."`
}

// userOrEmail names a user.
type userOrEmail struct {
	id    uuid.UUID
	email string // empty: by id
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *userOrEmail) UnmarshalText(text []byte) (err error) {
	if strings.Contains(string(text), "@") {
		u.email = string(text)
	} else if u.id, err = uuid.ParseBytes(text); err != nil {
		return errors.New("must be a user's id, a UUID, or e-mail address")
	}
	return nil
}

func (c userShowCommand) Run(p *program, group *userCommands, db *database) (err error) {
	var found account.User
	if c.ID.email == "" {
		found, err = db.user(p, c.ID.id)
	} else if found, err = db.accounts().FindUser(p.ctx, c.ID.email); err != nil {
		err = fmt.Errorf("user %s: %w", c.ID.email, err)
	}
	if err != nil {
		return err
	}
	return group.printUser(p, found)
}

func (c userCommands) printUser(p *program, user account.User) error {
	row := toUserJSON(user)
	return c.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "user id\t%s\n", row.UserId)
		fmt.Fprintf(w, "e-mail\t%s\n", row.Email)
		fmt.Fprintf(w, "time zone\t%s\n", row.Timezone)
		fmt.Fprintf(w, "registered on\t%s\n", row.RegisteredOn)
		fmt.Fprintf(w, "created\t%s\n", row.CreatedAt.Format(time.RFC3339))
	})
}

type userUpdateCommand struct {
	userID
	Email        *string `help:"Another address for the user's sign-in codes."`
	Timezone     *string `placeholder:"AREA/CITY" help:"Another time zone."`
	RegisteredOn *date   `placeholder:"YYYY-MM-DD" help:"Another registration day."`
}

func (c userUpdateCommand) change() account.UserChange {
	change := account.UserChange{Email: c.Email, Timezone: c.Timezone}
	if c.RegisteredOn != nil {
		change.RegisteredOn = &c.RegisteredOn.Time
	}
	return change
}

// AfterApply implements a hook of kong.
func (c userUpdateCommand) AfterApply() error {
	if c.change() == (account.UserChange{}) {
		return usagef("nothing to change: give --email, --timezone or --registered-on")
	}
	return nil
}

func (c userUpdateCommand) Run(p *program, group *userCommands, db *database) error {
	changed, err := db.accounts().ChangeUser(p.ctx, c.ID, c.change())
	if err != nil {
		return fmt.Errorf("user %s: %w", c.ID, err)
	}
	return group.printUser(p, changed)
}

type userDeleteCommand struct {
	confirmation
	userID
}

type userDeletedJSON struct {
	UserID           uuid.UUID `json:"user_id"`
	ConnectionsEnded int64     `json:"connections_ended"`
}

func (c userDeleteCommand) Run(p *program, group *userCommands, db unhurried) error { // an import may lock the user for long
	found, err := db.user(p, c.ID)
	if err != nil {
		return err
	}
	connections, err := db.connections().ConnectionsOfUser(p.ctx, c.ID)
	if err != nil {
		return err
	}
	if err := c.confirm(p, fmt.Sprintf("end %s of user %s (%s) and permanently delete the user with all recorded activity",
		count(int64(len(connections)), "connection"), found.ID, found.Email)); err != nil {
		return err
	}
	ended, err := db.accounts().DeleteUser(p.ctx, c.ID)
	if err != nil {
		return fmt.Errorf("user %s: %w", c.ID, err)
	}
	return group.say(p, userDeletedJSON{c.ID, ended}, "user %s is deleted; %s ended", c.ID, count(ended, "connection"))
}
