package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/operator"
	"connect-svc/internal/audit"
	"connect-svc/internal/page"
	"connect-svc/internal/timelimit"
)

type auditCommands struct {
	output
	databaseSetting
	List auditListCommand `cmd:"" help:"List changes, oldest first." example:"connect-svc audit list --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --since 2026-01-31"`
}

type auditListCommand struct {
	Client uuid.UUID `placeholder:"UUID" help:"Only entries about this client."`
	User   uuid.UUID `placeholder:"UUID" help:"Only entries about this user, who may have been deleted."`
	Actor  string    `placeholder:"NAME" help:"Only what this actor did: user, client, operator, system, or the name of an operator's token."`
	Action string    `placeholder:"ACTION" help:"Only this action, such as client.updated."`
	Since  instant   `placeholder:"TIME" help:"Only entries since this time: YYYY-MM-DD (UTC) or RFC 3339."`
	Until  instant   `placeholder:"TIME" help:"Only entries before this time: YYYY-MM-DD (UTC) or RFC 3339."`
}

// auditEventJSON is an entry as the operator API has it, with the instant as it is stored and the version as a number. What it does
// not concern is null.
type auditEventJSON struct {
	operatorapi.AuditEvent
	At                time.Time `json:"at"`
	ConnectionVersion *int64    `json:"connection_version"`
}

// orDash is a cell of a table.
func orDash[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func toAuditEventJSON(e audit.Event) auditEventJSON {
	row := auditEventJSON{operator.AuditBody(e), e.At.UTC(), nil}
	if e.ConnectionVersion != 0 {
		row.ConnectionVersion = &e.ConnectionVersion
	}
	return row
}

func (c auditListCommand) Run(p *program, group *auditCommands, db *database) error {
	log := audit.New(db.Pool, timelimit.Default, 0)
	filter := audit.Filter{
		ClientID: c.Client, UserID: c.User, Since: c.Since.Time, Until: c.Until.Time, Actor: c.Actor, Action: c.Action,
	}
	if err := log.RecordExport(p.ctx, "command_line", filter); err != nil {
		return err
	}
	rows := func(yield func(audit.Event, error) bool) {
		for after := (page.Key{}); ; {
			found, err := log.List(p.ctx, filter, after, listPage)
			if err != nil {
				yield(audit.Event{}, err)
				return
			}
			for _, event := range found.Events {
				if !yield(event, nil) {
					return
				}
			}
			if after = found.Next; after == (page.Key{}) {
				return
			}
		}
	}
	return stream(group.output, p, rows, toAuditEventJSON, "AT\tACTOR\tACTION\tCLIENT ID\tUSER ID\tVERSION\tDETAIL",
		func(w io.Writer, event audit.Event) {
			row := toAuditEventJSON(event)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.At.Format(time.RFC3339), row.Actor, row.Action,
				orDash(row.ClientId), orDash(row.UserId), orDash(row.ConnectionVersion), row.Detail)
		})
}
