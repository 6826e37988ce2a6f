package main

import (
	"net/http"

	"connect-svc/gen/operatorapi"
)

type auditCommands struct {
	output
	databaseSetting
	List auditListCommand `cmd:"" help:"List changes, oldest first." example:"connect-svc audit list --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --since 2026-01-31"`
}

type auditListCommand struct {
	Client *clientRef   `placeholder:"UUID|NAME" help:"Only entries about this client."`
	User   *userOrEmail `placeholder:"UUID|EMAIL" help:"Only entries about this user. A deleted user has an id only."`
	Actor  *string      `placeholder:"NAME" help:"Only what this actor did: user, client, operator, system, the name of an operator's token, or cli:NAME for commands."`
	Action *string      `placeholder:"ACTION" help:"Only this action, such as client.updated."`
	Since  instant      `placeholder:"TIME" help:"Only entries since this time: YYYY-MM-DD (UTC) or RFC 3339."`
	Until  instant      `placeholder:"TIME" help:"Only entries before this time: YYYY-MM-DD (UTC) or RFC 3339."`
}

func (c auditListCommand) Run(p *program, group *auditCommands, api *operatorAPI) error {
	params := operatorapi.ListAuditLogParams{
		ClientId: c.Client.id(), Actor: c.Actor, Action: c.Action, Since: c.Since.param(), Until: c.Until.param(), Limit: new(pageRows),
	}
	switch {
	case c.User == nil:
	case c.User.email != "":
		params.Email = &c.User.email
	default:
		params.UserId = &c.User.id
	}
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		params.Cursor = cursor
		return api.ListAuditLog(p.ctx, &params)
	}), "at actor action client_id user_id connection_version detail")
}
