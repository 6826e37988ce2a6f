package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/audit"
	"connect-svc/internal/postgres"
)

type auditCommands struct {
	output
	databaseSetting
	List auditListCommand `cmd:"" help:"List what happened to clients, users and connections, oldest first." example:"connect-svc audit list --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --since 2026-01-31"`
}

type auditListCommand struct {
	Client uuid.UUID `placeholder:"UUID" help:"Only what concerns this client."`
	User   uuid.UUID `placeholder:"UUID" help:"Only what concerns this user, who may be deleted."`
	Since  instant   `placeholder:"TIME" help:"Only what happened since then: YYYY-MM-DD (UTC) or RFC 3339."`
}

// auditEventJSON has null for the client, user or connection that an event does not concern.
type auditEventJSON struct {
	ID                int64           `json:"id"`
	At                time.Time       `json:"at"`
	Actor             string          `json:"actor"`
	Action            string          `json:"action"`
	ClientID          *uuid.UUID      `json:"client_id"`
	UserHash          *string         `json:"user_hash"`
	ConnectionVersion *int64          `json:"connection_version"`
	Detail            json.RawMessage `json:"detail"`
}

// orDash is a cell of a table.
func orDash[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func toAuditEventJSON(e audit.Event) auditEventJSON {
	row := auditEventJSON{ID: e.ID, At: e.At.UTC(), Actor: e.Actor, Action: e.Action, Detail: e.Detail}
	if e.ClientID != uuid.Nil {
		row.ClientID = &e.ClientID
	}
	if e.UserHash != nil {
		text := hex.EncodeToString(e.UserHash)
		row.UserHash = &text
	}
	if e.ConnectionVersion != 0 {
		row.ConnectionVersion = &e.ConnectionVersion
	}
	return row
}

func (c auditListCommand) Run(p *program, group *auditCommands) error {
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		const page = 1000
		log, rows := audit.New(pool), []auditEventJSON{}
		for last := int64(0); ; last = rows[len(rows)-1].ID {
			list, err := log.List(p.ctx, audit.Filter{ClientID: c.Client, UserID: c.User, Since: c.Since.Time}, last, page)
			if err != nil {
				return err
			}
			for _, event := range list {
				rows = append(rows, toAuditEventJSON(event))
			}
			if len(list) < page {
				break
			}
		}
		return group.print(p, rows, func(w io.Writer) {
			fmt.Fprintln(w, "AT\tACTOR\tACTION\tCLIENT ID\tUSER\tVERSION\tDETAIL")
			for _, row := range rows {
				// 12 characters of a user's hash are enough to tell users apart.
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.12s\t%s\t%s\n", row.At.Format(time.RFC3339), row.Actor, row.Action,
					orDash(row.ClientID), orDash(row.UserHash), orDash(row.ConnectionVersion), row.Detail)
			}
		})
	})
}
