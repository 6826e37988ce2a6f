package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"connect-svc/internal/domain/webhook/verify"
)

type webhookVerifyCommand struct {
	Secret   string  `required:"" placeholder:"SECRET" help:"The signing secret, whsec_…"`
	Headers  string  `required:"" placeholder:"FILE" help:"The headers as received, one per line: \"webhook-id: msg_…\"."`
	Body     string  `required:"" placeholder:"FILE" help:"The body as received, byte for byte."`
	Received instant `placeholder:"TIME" help:"When it was received, as RFC 3339. Receivers refuse a call that is more than 5 minutes off. Left out, the age is not checked."`
}

func (c webhookVerifyCommand) Run(p *program, group *webhookCommands) error {
	text, err := os.ReadFile(filepath.Clean(c.Headers))
	if err != nil {
		return err
	}
	header, err := verify.Headers(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Headers, err)
	}
	body, err := os.ReadFile(filepath.Clean(c.Body))
	if err != nil {
		return err
	}
	verdict, err := verify.Call(c.Secret, header, body, c.Received.Time)
	if err != nil {
		return usagef("--secret: %w", err)
	}
	if !verdict.Genuine {
		failure := fmt.Errorf("not genuine: %s", verdict.Reason)
		if group.Output == "json" {
			return errors.Join(group.print(p, verdict, nil), failure)
		}
		return failure
	}
	return group.print(p, verdict, func(w io.Writer) {
		fmt.Fprintln(w, "genuine\tyes")
		if verdict.Reason != "" {
			fmt.Fprintf(w, "note\t%s\n", verdict.Reason)
		}
		fmt.Fprintf(w, "webhook id\t%s\n", *verdict.WebhookID)
		fmt.Fprintf(w, "signed\t%s\n", verdict.SignedAt.Format(time.RFC3339))
		if verdict.Type != nil {
			fmt.Fprintf(w, "type\t%s\n", *verdict.Type)
		}
	})
}
