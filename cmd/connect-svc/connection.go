package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/operator"
	"connect-svc/internal/oauth"
	"connect-svc/internal/page"
)

type connectionCommands struct {
	output
	databaseSetting
	List       connectionListCommand       `cmd:"" help:"List the connections of a user or of a client." detail:"Those that have ended are listed, too." example:"connect-svc connection list --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"`
	Disconnect connectionDisconnectCommand `cmd:"" help:"End a user's connection with a client." example:"connect-svc connection disconnect --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --yes"`
}

// connectionJSON is a connection as the operator API has it, with the instants as they are stored and its version as a number.
type connectionJSON struct {
	operatorapi.FoundConnection
	Version    int64      `json:"connection_version"`
	Authorized time.Time  `json:"authorized_at"`
	LastRead   *time.Time `json:"last_read_at"` // null if the client has never read
}

func toConnectionJSON(c oauth.Connection) connectionJSON {
	row := connectionJSON{FoundConnection: operator.FoundConnectionBody(c), Version: c.Version, Authorized: c.AuthorizedAt.UTC()}
	if c.LastReadAt != nil {
		row.LastRead = timeOrNull(*c.LastReadAt)
	}
	return row
}

type connectionListCommand struct {
	User   uuid.UUID `placeholder:"UUID" xor:"of" required:"" help:"Only this user's connections."`
	Email  string    `placeholder:"EMAIL" xor:"of" required:"" help:"Only the connections of the user with this address."`
	Client uuid.UUID `placeholder:"UUID" xor:"of" required:"" help:"Only this client's connections."`
}

func (c connectionListCommand) Run(p *program, group *connectionCommands, db *database) error {
	filter, err := c.filter(p, db)
	if err != nil {
		return err
	}
	rows := paged(func(after page.Key) ([]oauth.Connection, error) {
		return db.connections().Connections(p.ctx, filter, after, listPage)
	}, oauth.Connection.Key)
	return stream(group.output, p, rows, toConnectionJSON, "USER ID\tCLIENT ID\tCLIENT\tSTATE\tVERSION\tFROM\tLAST READ\tSCOPES",
		func(w io.Writer, c oauth.Connection) {
			lastRead := "never"
			if c.LastReadAt != nil {
				lastRead = c.LastReadAt.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", c.UserID, c.Partner.ClientID, c.Partner.Name, c.State,
				c.Version, c.HistoryFrom.Format(time.DateOnly), lastRead, c.Scopes)
		})
}

// filter is whose connections are listed. There must be such a user or client.
func (c connectionListCommand) filter(p *program, db *database) (oauth.Filter, error) {
	switch {
	case c.User != uuid.Nil:
		_, err := db.user(p, c.User)
		return oauth.Filter{UserID: &c.User}, err
	case c.Email != "":
		user, err := db.accounts().FindUser(p.ctx, c.Email)
		return oauth.Filter{UserID: &user.ID}, err
	}
	_, err := db.clients().Get(p.ctx, c.Client)
	return oauth.Filter{ClientID: &c.Client}, err
}

type connectionDisconnectCommand struct {
	confirmation
	User   uuid.UUID `required:"" placeholder:"UUID" help:"The user's id."`
	Client uuid.UUID `required:"" placeholder:"UUID" help:"The client's id."`
}

type disconnectedJSON struct {
	UserID   uuid.UUID   `json:"user_id"`
	ClientID uuid.UUID   `json:"client_id"`
	State    oauth.State `json:"state"`
}

func (c connectionDisconnectCommand) Run(p *program, group *connectionCommands, db *database) error {
	user, err := db.user(p, c.User)
	if err != nil {
		return err
	}
	partner, err := db.clients().Get(p.ctx, c.Client)
	if err != nil {
		return err
	}
	if err := c.confirm(p, fmt.Sprintf("end the connection of user %s (%s) with client %s (%s)",
		user.ID, user.Email, partner.ID, partner.Name)); err != nil {
		return err
	}
	if err := db.connections().DisconnectByOperator(p.ctx, c.User, c.Client); err != nil {
		return fmt.Errorf("user %s, client %s: %w", c.User, c.Client, err)
	}
	return group.say(p, disconnectedJSON{c.User, c.Client, oauth.Disconnected}, "user %s is disconnected from %s", c.User, partner.Name)
}
