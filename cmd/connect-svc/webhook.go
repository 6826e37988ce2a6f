package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/domain/webhook/verify"
)

// messageID is a webhook-id, which may also be written as a UUID.
type messageID string

func (m *messageID) UnmarshalText(text []byte) error {
	id, err := webhook.ParseEventID(string(text))
	if err != nil {
		return errors.New("must be a webhook-id such as msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21")
	}
	*m = messageID(webhook.Event{ID: id}.MessageID())
	return nil
}

func writeEvent(w io.Writer, detail operatorapi.WebhookEventDetail) {
	fields(w, detail, "webhook_id client_id type event.created_at state event.next_attempt_at body")
	heading(w, len(detail.Log), "ATTEMPT\tAT\tTIMESTAMP\tTOOK\tSTATUS\tFAULT")
	for _, a := range detail.Log {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d ms\t%s\t%s\n", a.Attempt, a.At, a.WebhookTimestamp, a.DurationMs, given(a.Status), a.Fault)
	}
	for _, a := range detail.Log {
		if a.Response != "" {
			fmt.Fprintf(w, "\nResponse to attempt %d:\n%s\n", a.Attempt, strings.TrimRight(printable(a.Response), "\n "))
		}
	}
}

// answer is the client without its webhook, or of the operator what ended.
func (c clientWebhookRemoveCommand) answer(p *program, api *operatorAPI, preview operatorapi.ClientPreview) (any, error) {
	if c.ID.UUID == webhook.Operator {
		return preview, nil
	}
	return decode[operatorapi.Client](api.ReadClient(p.ctx, c.ID.UUID))
}

type webhookTestCommand struct {
	databaseSetting
	settings.Keyset
	WebhookAllowCIDRs         []netip.Prefix          `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	OperatorWebhookAllowCIDRs []netip.Prefix          `setting:"" type:"networks" name:"operator-webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that the operator's own webhook may reach, too."`
	Client                    clientRef               `required:"" placeholder:"UUID|NAME" help:"The client's id or name, or operator."`
	Type                      operatorapi.WebhookType `default:"connection.revoked" placeholder:"TYPE" help:"Event type: connection.revoked or activity.updated, and of the operator connection.authorized or connection.ended (default ${default})."`
}

func (c webhookTestCommand) Run(p *program, group *webhookCommands, api *operatorAPI) error {
	api, err := newAPI(api.pool, c.Ring(), nil, webhook.Settings{AllowedNetworks: c.WebhookAllowCIDRs, OwnNetworks: c.OperatorWebhookAllowCIDRs})
	if err != nil {
		return err
	}
	sample, err := decode[operatorapi.WebhookSample](api.TestWebhook(p.ctx, c.Client.UUID, operatorapi.WebhookTest{Type: c.Type}))
	if err != nil {
		return err
	}
	var failure error
	if !sample.Accepted {
		problem := sample.Attempt.Fault
		if sample.Attempt.Status != nil {
			problem = strings.TrimSuffix("the receiver answered "+given(sample.Attempt.Status)+": "+problem, ": ")
		}
		failure = errors.New("not delivered: " + problem)
		if group.Output == "text" && sample.Attempt.Response == "" {
			return failure
		}
	}
	return errors.Join(group.print(p, sample, func(w io.Writer) {
		fmt.Fprintf(w, "type\t%s\n", sample.Type)
		fmt.Fprintf(w, "answered\t%s after %d ms\n", given(sample.Attempt.Status), sample.Attempt.DurationMs)
		if sample.Attempt.Response != "" {
			fmt.Fprintf(w, "response\t%s\n", printable(sample.Attempt.Response))
		}
	}), failure)
}

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
		fmt.Fprintf(w, "webhook id\t%s\nsigned\t%s\n", *verdict.WebhookID, verdict.SignedAt.Format(time.RFC3339))
		if verdict.Type != nil {
			fmt.Fprintf(w, "type\t%s\n", *verdict.Type)
		}
	})
}
