package main

import (
	"context"
	"net/http"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
)

type clientWebhookCommands struct {
	Set          clientWebhookSetCommand          `cmd:"" help:"Set the URL that receives a client's events." detail:"The signing secret is printed the first time only. A webhook that was stopped resumes." example:"connect-svc client webhook set 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 https://partner.example/webhooks"`
	RotateSecret clientWebhookRotateSecretCommand `cmd:"" help:"Replace the signing secret and print it once." detail:"Events are signed with both secrets for 24 hours." example:"connect-svc client webhook rotate-secret 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Pause        clientWebhookPauseCommand        `cmd:"" help:"Have a client's events wait." detail:"They are written as before, and nothing is sent until the webhook resumes. An event that has waited for four days fails. webhook test still sends a sample." example:"connect-svc client webhook pause 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Resume       clientWebhookPauseCommand        `cmd:"" help:"Send the events that wait, oldest first." example:"connect-svc client webhook resume 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Remove       clientWebhookRemoveCommand       `cmd:"" help:"Stop sending a client events." detail:"Pending events are not sent. The delivery log is kept." example:"connect-svc client webhook remove 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
}

// webhookNotes are lines that people read below a client's webhook and its secret, either of which may be missing.
func webhookNotes(w *operatorapi.Webhook, secret *string) (notes []string) {
	if w != nil && w.StoppedAt != nil {
		notes = append(notes, "The webhook was stopped because its receiver answered 410. Set its URL again to resume.")
	}
	if w != nil && w.PausedAt != nil {
		notes = append(notes, "The webhook is paused: its events wait until it resumes.")
	}
	if secret != nil {
		notes = append(notes, "Save the secret now: it cannot be shown again.")
	}
	return notes
}

// webhookFields are what people see of a webhook.
const webhookFields = " webhook.url webhook.stopped_at webhook.paused_at webhook.rotating_until webhook_secret"

// showWebhook prints a webhook with its secret, if that is new.
func (c clientCommands) showWebhook(p *program, response *http.Response, err error) error {
	set, err := decode[operatorapi.WebhookWithSecret](response, err)
	if err != nil {
		return err
	}
	notes := webhookNotes(&set.Webhook, set.WebhookSecret)
	if set.WebhookSecret == nil {
		notes = append(notes, "The signing secret is unchanged.")
	}
	return c.show(p, set, "client_id"+webhookFields, notes...)
}

type clientWebhookSetCommand struct {
	clientID
	URL string `arg:"" help:"An https URL that the service can reach."`
	settings.Keyset
}

func (c clientWebhookSetCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	response, err := api.SetWebhook(p.ctx, c.ID.UUID, operatorapi.WebhookTarget{Url: c.URL})
	return group.showWebhook(p, response, err)
}

type clientWebhookRotateSecretCommand struct {
	clientID
	settings.Keyset
}

func (c clientWebhookRotateSecretCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	response, err := api.RotateWebhookSecret(p.ctx, c.ID.UUID)
	return group.showWebhook(p, response, err)
}

// clientWebhookPauseCommand pauses or resumes a webhook, by the name of the command.
type clientWebhookPauseCommand struct{ clientID }

func (c clientWebhookPauseCommand) Run(p *program, group *clientCommands, api *operatorAPI, command *kong.Context) error {
	act := map[string]func(context.Context, uuid.UUID, ...operatorapi.RequestEditorFn) (*http.Response, error){
		"pause": api.PauseWebhook, "resume": api.ResumeWebhook,
	}[command.Selected().Name]
	changed, err := decode[operatorapi.Webhook](act(p.ctx, c.ID.UUID))
	if err != nil {
		return err
	}
	return group.show(p, changed, "url created_at stopped_at paused_at", webhookNotes(&changed, nil)...)
}

type clientWebhookRemoveCommand struct{ clientID }

func (c clientWebhookRemoveCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	if _, err := api.RemoveWebhook(p.ctx, c.ID.UUID); err != nil {
		return err
	}
	left, err := decode[operatorapi.Client](api.ReadClient(p.ctx, c.ID.UUID))
	if err != nil {
		return err
	}
	return group.say(p, left, "client %s no longer has a webhook", c.ID.UUID)
}
