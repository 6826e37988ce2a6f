package main

import (
	"fmt"
	"io"
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
	Delete userDeleteCommand `cmd:"" help:"Permanently delete a user, their connections and their data." example:"connect-svc user delete 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --yes"`
}

// accountsOf is the users in the database. It has neither keys nor a mailer: no command here seals anything or sends mail.
func accountsOf(pool *postgres.Pool) *account.Accounts {
	return account.New(pool, nil, nil, account.Settings{
		EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUser,
	})
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

func (c userCreateCommand) Run(p *program, group *userCommands) error {
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		created, err := accountsOf(pool).CreateUser(p.ctx, account.NewUser{
			ID:           c.ID,
			Email:        c.Email,
			Timezone:     c.Timezone,
			RegisteredOn: c.RegisteredOn.Time,
		})
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
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		const page = 1000
		users, rows := accountsOf(pool), []userJSON{}
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

// userID is the argument of the commands on one user.
type userID struct {
	ID uuid.UUID `arg:"" help:"The user's id."`
}

type userShowCommand struct{ userID }

func (c userShowCommand) Run(p *program, group *userCommands) error {
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		found, err := accountsOf(pool).GetUser(p.ctx, c.ID)
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
	userID
}

type userDeletedJSON struct {
	UserID           uuid.UUID `json:"user_id"`
	ConnectionsEnded int64     `json:"connections_ended"`
}

func (c userDeleteCommand) Run(p *program, group *userCommands) error {
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		users := accountsOf(pool)
		found, err := users.GetUser(p.ctx, c.ID)
		if err != nil {
			return fmt.Errorf("user %s: %w", c.ID, err)
		}
		connections, err := oauth.New(pool, nil, oauth.Settings{}).ConnectionsOfUser(p.ctx, c.ID)
		if err != nil {
			return err
		}
		if err := c.confirm(p, fmt.Sprintf("end %s of user %s (%s) and permanently delete the user with all recorded activity",
			count(int64(len(connections)), "connection"), found.ID, found.Email)); err != nil {
			return err
		}
		ended, err := users.DeleteUser(p.ctx, c.ID)
		if err != nil {
			return fmt.Errorf("user %s: %w", c.ID, err)
		}
		return group.print(p, userDeletedJSON{c.ID, ended}, func(w io.Writer) {
			fmt.Fprintf(w, "user %s is deleted; %s ended\n", c.ID, count(ended, "connection"))
		})
	}, postgres.WithoutStatementTimeout()) // an import may lock the user for long
}
