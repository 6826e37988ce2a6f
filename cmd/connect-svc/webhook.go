package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/webhook"
)

type webhookCommands struct {
	output
	List   webhookListCommand   `cmd:"" help:"List the events of the last 30 days, oldest first." example:"connect-svc webhook list --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --state failed"`
	Show   webhookShowCommand   `cmd:"" help:"Show an event with every delivery attempt and its response." example:"connect-svc webhook show msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"`
	Replay webhookReplayCommand `cmd:"" help:"Deliver an event again, with the same webhook-id." detail:"Its retry schedule starts over." example:"connect-svc webhook replay msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"`
	Test   webhookTestCommand   `cmd:"" help:"Send a client a signed sample event and show the response." detail:"The exit status is 1 if the event is not accepted." example:"connect-svc webhook test --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --type activity.updated"`
	Verify webhookVerifyCommand `cmd:"" help:"Check whether a received call came from the service." detail:"If it did not, this says why, and the exit status is 1." example:"connect-svc webhook verify --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --headers headers.txt --body body.json"`
}

type webhookListCommand struct {
	databaseSetting
	Client *clientRef                `placeholder:"UUID|NAME" help:"Only events for this client."`
	State  *operatorapi.WebhookState `enum:"pending,delivered,failed" placeholder:"STATE" help:"Only events in this state: pending, delivered or failed."`
}

func (c webhookListCommand) Run(p *program, group *webhookCommands, api *operatorAPI) error {
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		return api.ListWebhookEvents(p.ctx, &operatorapi.ListWebhookEventsParams{
			ClientId: c.Client.id(), State: c.State, Limit: new(pageRows), Cursor: cursor,
		})
	}), "created_at webhook_id client_id type state attempts next_attempt_at reason datasets from to")
}

// eventID is the argument of the commands on one event.
type eventID struct {
	ID messageID `arg:"" help:"The event's webhook-id, msg_…"`
}

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

type webhookShowCommand struct {
	databaseSetting
	eventID
}

func (c webhookShowCommand) Run(p *program, group *webhookCommands, api *operatorAPI) error {
	found, err := decode[operatorapi.WebhookEventDetail](api.ReadWebhookEvent(p.ctx, string(c.ID)))
	if err != nil {
		return err
	}
	return group.print(p, found, func(w io.Writer) {
		fields(w, found, "webhook_id client_id type event.created_at state event.next_attempt_at body")
		heading(w, len(found.Log), "ATTEMPT\tAT\tTIMESTAMP\tTOOK\tSTATUS\tFAULT")
		for _, a := range found.Log {
			fmt.Fprintf(w, "%d\t%s\t%d\t%d ms\t%s\t%s\n", a.Attempt, a.At, a.WebhookTimestamp, a.DurationMs, given(a.Status), a.Fault)
		}
		for _, a := range found.Log {
			if a.Response != "" {
				fmt.Fprintf(w, "\nResponse to attempt %d:\n%s\n", a.Attempt, strings.TrimRight(printable(a.Response), "\n "))
			}
		}
	})
}

type webhookReplayCommand struct {
	databaseSetting
	eventID
}

func (c webhookReplayCommand) Run(p *program, group *webhookCommands, api *operatorAPI) error {
	event, err := decode[operatorapi.WebhookEvent](api.ReplayWebhookEvent(p.ctx, string(c.ID)))
	if err != nil {
		return err
	}
	return group.say(p, event, "%s will be delivered again: `connect-svc webhook show %s` shows the outcome", event.WebhookId, event.WebhookId)
}

type webhookTestCommand struct {
	databaseSetting
	settings.Keyset
	WebhookAllowCIDRs []netip.Prefix          `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	Client            clientRef               `required:"" placeholder:"UUID|NAME" help:"The client's id or name."`
	Type              operatorapi.WebhookType `default:"connection.revoked" placeholder:"TYPE" help:"Event type: connection.revoked or activity.updated (default ${default})."`
}

func (c webhookTestCommand) Run(p *program, group *webhookCommands, api *operatorAPI) error {
	api, err := newAPI(api.pool, c.Ring(), nil, webhook.Settings{AllowedNetworks: c.WebhookAllowCIDRs})
	if err != nil {
		return err
	}
	sample, err := decode[operatorapi.WebhookSample](api.TestWebhook(p.ctx, c.Client.UUID, operatorapi.WebhookTest{Type: c.Type}))
	if err != nil {
		return err
	}
	var failure error
	if !sample.Accepted {
		failure = errors.New("not delivered: " + problemOf(sample.Attempt))
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

// problemOf is why the receiver did not accept the event.
func problemOf(a operatorapi.WebhookAttempt) string {
	if a.Status == nil {
		return a.Fault
	}
	return strings.TrimSuffix("the receiver answered "+given(a.Status)+": "+a.Fault, ": ")
}
