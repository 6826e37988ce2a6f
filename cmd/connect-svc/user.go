package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
)

type userCommands struct {
	output
	databaseSetting
	Create     userCreateCommand     `cmd:"" help:"Create a user." example:"connect-svc user create --email ada@example.com --timezone Europe/Berlin --registered-on 2026-01-31"`
	List       userListCommand       `cmd:"" help:"List all users." example:"connect-svc user list --output json"`
	Show       userShowCommand       `cmd:"" help:"Show one user." example:"connect-svc user show ada@example.com"`
	Update     userUpdateCommand     `cmd:"" help:"Change a user." detail:"Another address ends the user's sign-ins, sessions and undecided requests. Another time zone decides calendar days from now on: the first readable dates of connections stay. Another registration day bounds the reads of steps at once, also of existing connections." example:"connect-svc user update 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --timezone Asia/Tokyo"`
	Activity   userActivityCommand   `cmd:"" help:"Show a user's recorded activity, and what partners see." detail:"With the corrections by support. The audit log records that you looked. Who wrote a correction is known if it was made by itself, not in a batch." example:"connect-svc user activity ada@example.com --from 2026-01-01 --to 2026-01-31"`
	SignIns    userSignInsCommand    `cmd:"" help:"Show what happened to the sign-ins of an address." detail:"Within 7 days. An address need not have an account. Codes are not stored." example:"connect-svc user sign-ins ada@example.com"`
	LiftLimits userLiftLimitsCommand `cmd:"" help:"Lift the limits of a user's sign-ins once." detail:"The limits of codes and of wrong codes begin anew for the user's address. The limits of networks stay." example:"connect-svc user lift-limits ada@example.com"`
	Delete     userDeleteCommand     `cmd:"" unhurried:"" help:"Permanently delete a user, their connections and data." example:"connect-svc user delete 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --yes"`
}

type userCreateCommand struct {
	Email        string     `required:"" help:"Address that receives the user's sign-in codes."`
	Timezone     string     `required:"" placeholder:"AREA/CITY" help:"The user's time zone, which determines the calendar day of a consent. A former name is stored as the present one: Asia/Kolkata for Asia/Calcutta."`
	RegisteredOn date       `required:"" placeholder:"YYYY-MM-DD" help:"The user's registration day. Steps of earlier days cannot be read."`
	ID           *uuid.UUID `placeholder:"UUID" help:"The user's id (default: a new one)."`

	settings.OptionalMailServer
}

func (c userCreateCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	response, err := api.CreateUser(p.ctx, operatorapi.NewUser{
		UserId: c.ID, Email: c.Email, Timezone: c.Timezone, RegisteredOn: c.RegisteredOn.Date,
	})
	return group.answer(p, response, err, "user_id")
}

type userListCommand struct{}

func (userListCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		return api.ListUsers(p.ctx, &operatorapi.ListUsersParams{Limit: new(pageRows), Cursor: cursor})
	}), "user_id email timezone registered_on")
}

// userFields are what people see of a user.
const userFields = "user_id email timezone registered_on created_at"

type userOrEmail struct {
	id    uuid.UUID
	email string // empty: by id
}

func (u *userOrEmail) UnmarshalText(text []byte) (err error) {
	if strings.Contains(string(text), "@") {
		u.email = string(text)
	} else if u.id, err = uuid.ParseBytes(text); err != nil {
		return errors.New("must be a user's id, a UUID, or e-mail address")
	}
	return nil
}

func (u userOrEmail) read(p *program, api *operatorAPI) (operatorapi.User, error) {
	if u.email == "" {
		return decode[operatorapi.User](api.ReadUser(p.ctx, u.id))
	}
	page, err := decode[operatorapi.UserPage](api.ListUsers(p.ctx, &operatorapi.ListUsersParams{Email: &u.email}))
	if err == nil && len(page.Data) == 0 {
		err = errors.New("there is no such user")
	}
	if err != nil {
		return operatorapi.User{}, err
	}
	return page.Data[0], nil
}

// userID is the argument of the commands on one user.
type userID struct {
	ID userOrEmail `arg:"" help:"The user's id or e-mail address."`
}

type userShowCommand struct{ userID }

func (c userShowCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	user, err := c.ID.read(p, api)
	if err != nil {
		return err
	}
	return group.show(p, user, userFields)
}

type userUpdateCommand struct {
	userID
	Email        *string `help:"Another address for the user's sign-in codes."`
	Timezone     *string `placeholder:"AREA/CITY" help:"Another time zone."`
	RegisteredOn *date   `placeholder:"YYYY-MM-DD" help:"Another registration day."`

	settings.OptionalMailServer
}

func (c userUpdateCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	change := operatorapi.UserChange{Email: c.Email, Timezone: c.Timezone}
	if c.RegisteredOn != nil {
		change.RegisteredOn = &c.RegisteredOn.Date
	}
	user, err := c.ID.read(p, api)
	if err != nil {
		return err
	}
	response, err := api.ChangeUser(p.ctx, user.UserId, change)
	return group.answer(p, response, err, userFields)
}

func (c userUpdateCommand) AfterApply() error {
	if c.Email == nil && c.Timezone == nil && c.RegisteredOn == nil {
		return usagef("nothing to change: give --email, --timezone or --registered-on")
	}
	return nil
}

// userDeleteCommand is unhurried: an import may lock the user for long.
type userDeleteCommand struct {
	confirmation
	userID
}

func (c userDeleteCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	user, err := c.ID.read(p, api)
	if err != nil {
		return err
	}
	id := user.UserId
	connections, err := decode[operatorapi.Connections](api.ListConnections(p.ctx, id))
	if err != nil {
		return err
	}
	ending := count(int64(len(connections.Data)), "connection")
	if err := c.confirm(p, fmt.Sprintf("end %s of user %s (%s) and permanently delete the user with all recorded activity",
		ending, id, user.Email)); err != nil {
		return err
	}
	if _, err := api.DeleteUser(p.ctx, id); err != nil {
		return err
	}
	deleted := map[string]any{"user_id": id, "connections_ended": len(connections.Data)} // the operation answers nothing
	return group.say(p, deleted, "user %s is deleted; %s ended", id, ending)
}
