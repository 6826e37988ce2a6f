package main

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
)

type clientPortalLinkCommand struct {
	clientID
	BaseURL  string        `setting:"required" type:"origin" placeholder:"ORIGIN" help:"The service's https://host[:port] origin (required)."`
	Name     string        `default:"engineer" placeholder:"NAME" help:"The audit log names who opens the link partner:NAME (default ${default})."`
	ReadOnly bool          `help:"Who opens it may change nothing."`
	Valid    time.Duration `default:"24h" placeholder:"DURATION" help:"How long it can be opened, in whole seconds, 1m to 24h (default ${default})."`
	Replace  bool          `help:"End all other links and sessions of the client."`
}

func (c clientPortalLinkCommand) AfterApply() error {
	if c.Valid < time.Minute || c.Valid > 24*time.Hour || c.Valid%time.Second != 0 {
		return usagef("--valid: must be 1m to 24h, in whole seconds")
	}
	return nil
}

func (c clientPortalLinkCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	made, err := decode[operatorapi.PortalLink](api.CreatePortalLink(p.ctx, c.ID.UUID, operatorapi.NewPortalLink{
		Name: &c.Name, ReadOnly: &c.ReadOnly, ValidSeconds: new(int32(c.Valid / time.Second)), Replace: &c.Replace,
	}))
	if err != nil {
		return err
	}
	made.Url = c.BaseURL + made.Url
	return group.show(p, made, "url session.session_id session.name session.read_only session.expires_at",
		"The link works once and is shown once. Send it so that only that person can read it.")
}

type clientPortalSessionsCommand struct {
	clientID
	End    *uuid.UUID `placeholder:"SESSION_ID" help:"End this link or session."`
	EndAll bool       `help:"End all links and sessions of the client."`
}

func (c clientPortalSessionsCommand) AfterApply() error {
	if c.End != nil && c.EndAll {
		return usagef("--end-all: ends what --end would end, too")
	}
	return nil
}

func (c clientPortalSessionsCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	if c.End != nil || c.EndAll {
		var response *http.Response
		var err error
		if c.EndAll {
			response, err = api.EndPortalSessions(p.ctx, c.ID.UUID)
		} else {
			response, err = api.EndPortalSession(p.ctx, c.ID.UUID, *c.End)
		}
		if err != nil {
			return err
		}
		_ = response.Body.Close()
	}
	return group.list(p, rows(func(*string) (*http.Response, error) {
		return api.ListPortalSessions(p.ctx, c.ID.UUID)
	}), "session_id name read_only created_by created_at opened_at expires_at")
}
