package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
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

func (c clientErrorsCommand) Run(p *program, group *clientCommands) error {
	return group.inDatabase(p, func(pool *postgres.Pool) error {
		counted := usage.New(pool, slog.New(slog.DiscardHandler), time.Now)
		list, err := allPages(func(after usage.ErrorPosition, limit int) ([]usage.ClientError, error) {
			return counted.Errors(p.ctx, c.ID, after, limit)
		}, usage.ClientError.Position)
		if err != nil {
			return err
		}
		rows := make([]clientErrorJSON, len(list))
		for i, e := range list {
			rows[i] = clientErrorJSON{e.At.UTC(), e.Operation, e.Status, e.Code, e.Reason, e.Authenticated, e.Requests}
		}
		return group.print(p, rows, func(w io.Writer) {
			fmt.Fprintln(w, "LAST AT\tREQUESTS\tOPERATION\tSTATUS\tCODE\tCLIENT\tREASON")
			for _, row := range rows {
				client := "proven"
				if !row.Authenticated {
					client = "named"
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", row.At.Format(time.RFC3339), row.Requests, row.Operation,
					row.Status, row.Code, client, row.Reason)
			}
		})
	})
}
