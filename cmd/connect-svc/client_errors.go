package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/usage"
)

type clientErrorsCommand struct {
	ID uuid.UUID `arg:"" placeholder:"ID" help:"The client's id."`
}

type clientErrorJSON struct {
	At            time.Time `json:"at"` // of the last of the requests
	Operation     string    `json:"operation"`
	Status        int       `json:"status"`
	Code          string    `json:"code"`
	Reason        string    `json:"reason"`
	Authenticated bool      `json:"authenticated"`
	Requests      int64     `json:"requests"`
}

func toClientErrorJSON(e usage.ClientError) clientErrorJSON {
	return clientErrorJSON{e.At.UTC(), e.Operation, e.Status, e.Code, e.Reason, e.Authenticated, e.Requests}
}

func (c clientErrorsCommand) Run(p *program, group *clientCommands, db *database) error {
	rows := paged(func(after usage.ErrorPosition) ([]usage.ClientError, error) {
		return db.usage().Errors(p.ctx, c.ID, after, listPage)
	}, usage.ClientError.Position)
	return stream(group.output, p, rows, toClientErrorJSON, "LAST AT\tREQUESTS\tOPERATION\tSTATUS\tCODE\tCLIENT\tREASON",
		func(w io.Writer, row usage.ClientError) {
			client := "proven"
			if !row.Authenticated {
				client = "named"
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", row.At.UTC().Format(time.RFC3339), row.Requests, row.Operation,
				row.Status, row.Code, client, row.Reason)
		})
}
