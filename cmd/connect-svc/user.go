package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
)

type userCommands struct {
	output
	databaseSetting
	Create userCreateCommand `cmd:"" help:"Create a user." example:"connect-svc user create --email ada@example.com --timezone Europe/Berlin --registered-on 2026-01-31"`
	List   userListCommand   `cmd:"" help:"List all users." example:"connect-svc user list --output json"`
	Show   userShowCommand   `cmd:"" help:"Show one user." example:"connect-svc user show 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"`
	Delete userDeleteCommand `cmd:"" help:"End all connections of a user and remove everything known of them, for good." example:"connect-svc user delete 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --yes"`
}

// inAccounts runs act with the users in the database. Nothing here sends mail or seals anything.
func (c userCommands) inAccounts(p *program, act func(*account.Accounts) error) error {
	return c.inDatabase(p, func(pool *postgres.Pool) error {
		return act(account.New(pool, nil, nil, account.Settings{EndConnections: oauth.EndConnectionsOfUser}))
	})
}

// date is a flag in the form YYYY-MM-DD: midnight in UTC.
type date struct{ time.Time }

func (d date) String() string { return d.Format(time.DateOnly) }

func (d *date) UnmarshalText(text []byte) (err error) {
	if d.Time, err = time.Parse(time.DateOnly, string(text)); err != nil {
		return errors.New("must be a date in the form YYYY-MM-DD")
	}
	return nil
}

type userCreateCommand struct {
	Email        string    `required:"" help:"Where the user's sign-in codes go."`
	Timezone     string    `required:"" placeholder:"AREA/CITY" help:"The user's time zone, which decides the calendar day of a consent."`
	RegisteredOn date      `required:"" placeholder:"YYYY-MM-DD" help:"The user's registration day: no steps are read from before it."`
	ID           uuid.UUID `placeholder:"UUID" help:"The user's id; a new one by default."`
}

type userIDJSON struct {
	UserID uuid.UUID `json:"user_id"`
}

func (c userCreateCommand) Run(p *program, group *userCommands) error {
	return group.inAccounts(p, func(users *account.Accounts) error {
		created, err := users.CreateUser(p.ctx, account.NewUser{
			ID:           c.ID,
			Email:        c.Email,
			Timezone:     c.Timezone,
			RegisteredOn: c.RegisteredOn.Time,
		})
		var invalid *account.InvalidUserError
		if errors.As(err, &invalid) {
			return usagef("--%s: must be %s", strings.ReplaceAll(invalid.Field, "_", "-"), invalid.Wanted)
		}
		if err != nil {
			return err
		}
		return group.print(p, userIDJSON{created.ID}, func(w io.Writer) { fmt.Fprintf(w, "user id\t%s\n", created.ID) })
	})
}

type userJSON struct {
	UserID       uuid.UUID `json:"user_id"`
	Email        string    `json:"email"`
	Timezone     string    `json:"timezone"`
	RegisteredOn string    `json:"registered_on"`
	CreatedAt    time.Time `json:"created_at"`
}

func toUserJSON(u account.User) userJSON {
	return userJSON{u.ID, u.Email, u.Timezone, u.RegisteredOn.Format(time.DateOnly), u.CreatedAt.UTC()}
}

type userListCommand struct{}

func (userListCommand) Run(p *program, group *userCommands) error {
	return group.inAccounts(p, func(users *account.Accounts) error {
		const page = 1000
		rows := []userJSON{}
		for last := uuid.Nil; ; last = rows[len(rows)-1].UserID {
			list, err := users.ListUsers(p.ctx, last, page)
			if err != nil {
				return err
			}
			for _, user := range list {
				rows = append(rows, toUserJSON(user))
			}
			if len(list) < page {
				break
			}
		}
		return group.print(p, rows, func(w io.Writer) {
			fmt.Fprintln(w, "USER ID\tE-MAIL\tTIME ZONE\tREGISTERED ON")
			for _, user := range rows {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", user.UserID, user.Email, user.Timezone, user.RegisteredOn)
			}
		})
	})
}

type userShowCommand struct {
	ID uuid.UUID `arg:"" help:"The user's id."`
}

func (c userShowCommand) Run(p *program, group *userCommands) error {
	return group.inAccounts(p, func(users *account.Accounts) error {
		found, err := users.GetUser(p.ctx, c.ID)
		if err != nil {
			return fmt.Errorf("user %s: %w", c.ID, err)
		}
		row := toUserJSON(found)
		return group.print(p, row, func(w io.Writer) {
			fmt.Fprintf(w, "user id\t%s\n", row.UserID)
			fmt.Fprintf(w, "e-mail\t%s\n", row.Email)
			fmt.Fprintf(w, "time zone\t%s\n", row.Timezone)
			fmt.Fprintf(w, "registered on\t%s\n", row.RegisteredOn)
			fmt.Fprintf(w, "created\t%s\n", row.CreatedAt.Format(time.RFC3339))
		})
	})
}

type userDeleteCommand struct {
	confirmation
	ID uuid.UUID `arg:"" help:"The user's id."`
}

type userDeletedJSON struct {
	UserID           uuid.UUID `json:"user_id"`
	ConnectionsEnded int64     `json:"connections_ended"`
}

func (c userDeleteCommand) Run(p *program, group *userCommands) error {
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		users := account.New(pool, nil, nil, account.Settings{EndConnections: oauth.EndConnectionsOfUser})
		found, err := users.GetUser(p.ctx, c.ID)
		if err != nil {
			return fmt.Errorf("user %s: %w", c.ID, err)
		}
		connections, err := oauth.New(pool, nil, oauth.Settings{}).ConnectionsOfUser(p.ctx, c.ID)
		if err != nil {
			return err
		}
		if err := c.confirm(p, fmt.Sprintf("end %s of user %s (%s) and remove the user with all recorded activity, for good",
			count(int64(len(connections)), "connection"), found.ID, found.Email)); err != nil {
			return err
		}
		ended, err := users.DeleteUser(p.ctx, c.ID)
		if err != nil {
			return fmt.Errorf("user %s: %w", c.ID, err)
		}
		return group.print(p, userDeletedJSON{c.ID, ended}, func(w io.Writer) {
			fmt.Fprintf(w, "user %s is deleted, %s ended\n", c.ID, count(ended, "connection"))
		})
	}, postgres.WithoutStatementTimeout()) // an import may hold the user for long
}
