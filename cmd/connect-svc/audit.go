package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
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

// instant is a flag that is a day, from its midnight in UTC on, or a time of RFC 3339.
type instant struct{ time.Time }

func (i *instant) UnmarshalText(text []byte) (err error) {
	if i.Time, err = time.Parse(time.DateOnly, string(text)); err == nil {
		return nil
	}
	if i.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return errors.New("must be YYYY-MM-DD or a time such as 2026-01-31T08:00:00Z")
	}
	return nil
}

type auditListCommand struct {
	Client uuid.UUID `placeholder:"UUID" help:"Only what concerns this client."`
	User   uuid.UUID `placeholder:"UUID" help:"Only what concerns this user, who may be deleted."`
	Since  instant   `placeholder:"TIME" help:"Only what happened since then: YYYY-MM-DD (UTC) or RFC 3339."`
}

// auditEventJSON has null where an event does not concern a client, a user or a connection.
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
				client, user, version := "-", "-", "-"
				if row.ClientID != nil {
					client = row.ClientID.String()
				}
				if row.UserHash != nil {
					user = (*row.UserHash)[:12] // enough to tell users apart
				}
				if row.ConnectionVersion != nil {
					version = fmt.Sprint(*row.ConnectionVersion)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
					row.At.Format(time.RFC3339), row.Actor, row.Action, client, user, version, row.Detail)
			}
		})
	})
}
