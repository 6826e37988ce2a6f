package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"connect-svc/internal/client"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/webhook"
)

type webhookTestCommand struct {
	databaseSetting
	keysetSetting
	WebhookAllowCIDRs string    `setting:"" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	Client            uuid.UUID `required:"" placeholder:"UUID" help:"The client's id."`
	Type              string    `default:"connection.revoked" placeholder:"TYPE" help:"connection.revoked or activity.updated (default ${default})."`
}

type sampleJSON struct {
	ClientID  uuid.UUID `json:"client_id"`
	Type      string    `json:"type"`
	Delivered bool      `json:"delivered"`
	tryJSON
}

func (c webhookTestCommand) Run(p *program, group *webhookCommands) error {
	if c.Type != webhook.ConnectionRevoked && c.Type != webhook.ActivityUpdated {
		return usagef("--type: must be %s or %s", webhook.ConnectionRevoked, webhook.ActivityUpdated)
	}
	var checked checks
	allowed := optional(&checked, "webhook-allow-cidrs", c.WebhookAllowCIDRs, networks)
	if checked.first != nil {
		return checked.first
	}
	keys, err := c.open()
	if err != nil {
		return err
	}
	return c.inDatabase(p, func(pool *postgres.Pool) error {
		if _, err := client.NewRegistry(pool, oauth.EndConnectionsOfClient).Get(p.ctx, c.Client); err != nil {
			return err
		}
		webhooks, err := webhook.New(pool, keys, webhook.Settings{AllowedNetworks: allowed})
		if err != nil {
			return err
		}
		try, err := webhooks.SendSample(p.ctx, c.Client, c.Type)
		if err != nil {
			return err
		}
		row := sampleJSON{ClientID: c.Client, Type: c.Type, Delivered: try.Success(), tryJSON: toTryJSON(try)}
		var failure error
		if !row.Delivered {
			failure = fmt.Errorf("not delivered: %s", row.problem())
			if group.Output == "text" && row.Answer == "" {
				return failure
			}
		}
		return errors.Join(group.print(p, row, row.write), failure)
	})
}

// problem is why the receiver does not have the event.
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
	fmt.Fprintf(w, "answered\t%s after %d ms\n", s.status(), s.DurationMS)
	if s.Answer != "" {
		fmt.Fprintf(w, "answer\t%s\n", printable(s.Answer))
	}
}
