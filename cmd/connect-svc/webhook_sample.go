package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/google/uuid"

	"connect-svc/internal/webhook"
)

type webhookTestCommand struct {
	databaseSetting
	sealingSetting
	WebhookAllowCIDRs []netip.Prefix `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	Client            uuid.UUID      `required:"" placeholder:"UUID" help:"The client's id."`
	Type              string         `default:"connection.revoked" placeholder:"TYPE" help:"Event type: connection.revoked or activity.updated (default ${default})."`
}

type sampleJSON struct {
	ClientID  uuid.UUID `json:"client_id"`
	Type      string    `json:"type"`
	Delivered bool      `json:"delivered"`
	attemptJSON
}

// AfterApply implements a hook of kong.
func (c webhookTestCommand) AfterApply() error {
	if c.Type != webhook.ConnectionRevoked && c.Type != webhook.ActivityUpdated {
		return usagef("--type: must be %s or %s", webhook.ConnectionRevoked, webhook.ActivityUpdated)
	}
	return nil
}

func (c webhookTestCommand) Run(p *program, group *webhookCommands, db *database) error {
	webhooks, err := db.sealing(p, c.KeysetFile, webhook.Settings{AllowedNetworks: c.WebhookAllowCIDRs})
	if err != nil {
		return err
	}
	if _, err := db.clients().Get(p.ctx, c.Client); err != nil {
		return err
	}
	attempt, err := webhooks.SendSample(p.ctx, c.Client, c.Type)
	if err != nil {
		return err
	}
	row := sampleJSON{ClientID: c.Client, Type: c.Type, Delivered: attempt.Success(), attemptJSON: toAttemptJSON(attempt)}
	var failure error
	if !row.Delivered {
		failure = fmt.Errorf("not delivered: %s", row.problem())
		if group.Output == "text" && row.Response == "" {
			return failure
		}
	}
	return errors.Join(group.print(p, row, row.write), failure)
}

// problem is why the receiver did not accept the event.
func (s sampleJSON) problem() string {
	switch {
	case s.Status == nil:
		return s.Fault
	case s.Fault == "":
		return "the receiver answered " + s.status()
	default:
		return "the receiver answered " + s.status() + ": " + s.Fault
	}
}

func (s sampleJSON) write(w io.Writer) {
	fmt.Fprintf(w, "type\t%s\n", s.Type)
	fmt.Fprintf(w, "answered\t%s after %d ms\n", s.status(), s.DurationMs)
	if s.Response != "" {
		fmt.Fprintf(w, "response\t%s\n", printable(s.Response))
	}
}
