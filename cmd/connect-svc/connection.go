package main

import (
	"fmt"
	"net/http"

	"connect-svc/gen/operatorapi"
)

type connectionCommands struct {
	output
	databaseSetting
	List       connectionListCommand       `cmd:"" help:"List the connections of a user or of a client." detail:"Those that have ended are listed, too." example:"connect-svc connection list --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"`
	Disconnect connectionDisconnectCommand `cmd:"" help:"End a user's connection with a client." example:"connect-svc connection disconnect --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --yes"`
}

type connectionListCommand struct {
	User   *userOrEmail `placeholder:"UUID|EMAIL" xor:"of" required:"" help:"Only this user's connections."`
	Email  *string      `placeholder:"EMAIL" xor:"of" required:"" help:"Only the connections of the user with this address."`
	Client *clientRef   `placeholder:"UUID|NAME" xor:"of" required:"" help:"Only this client's connections."`
}

func (c connectionListCommand) Run(p *program, group *connectionCommands, api *operatorAPI) error {
	params := operatorapi.FindConnectionsParams{Email: c.Email, ClientId: c.Client.id(), Limit: new(pageRows)}
	if c.User != nil {
		user, err := c.User.read(p, api)
		if err != nil {
			return err
		}
		params.UserId = &user.UserId
	}
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		params.Cursor = cursor
		return api.FindConnections(p.ctx, &params)
	}), "user_id client_id client_name state connection_version history_from last_read_at scopes")
}

type connectionDisconnectCommand struct {
	confirmation
	User   userOrEmail `required:"" placeholder:"UUID|EMAIL" help:"The user's id or e-mail address."`
	Client clientRef   `required:"" placeholder:"UUID|NAME" help:"The client's id or name."`
}

func (c connectionDisconnectCommand) Run(p *program, group *connectionCommands, api *operatorAPI) error {
	user, err := c.User.read(p, api)
	if err != nil {
		return err
	}
	id := user.UserId
	partner, err := decode[operatorapi.Client](api.ReadClient(p.ctx, c.Client.UUID))
	if err != nil {
		return err
	}
	if err := c.confirm(p, fmt.Sprintf("end the connection of user %s (%s) with client %s (%s)",
		id, user.Email, c.Client.UUID, partner.Name)); err != nil {
		return err
	}
	if _, err := api.DisconnectUser(p.ctx, id, c.Client.UUID); err != nil {
		return err
	}
	ended, err := decode[operatorapi.FoundConnectionPage](api.FindConnections(p.ctx, &operatorapi.FindConnectionsParams{
		UserId: &id, ClientId: c.Client.id(),
	}))
	if err != nil {
		return err
	}
	return group.say(p, ended.Data[0], "user %s is disconnected from %s", id, partner.Name)
}
