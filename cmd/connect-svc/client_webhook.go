package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/webhook"
)

type clientWebhookCommands struct {
	Set          clientWebhookSetCommand          `cmd:"" help:"Set the URL that receives a client's events." detail:"The signing secret is printed the first time only. A webhook that was stopped resumes." example:"connect-svc client webhook set 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 https://partner.example/webhooks"`
	RotateSecret clientWebhookRotateSecretCommand `cmd:"" help:"Replace the signing secret and print it once." detail:"Events are signed with both secrets for 24 hours." example:"connect-svc client webhook rotate-secret 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Remove       clientWebhookRemoveCommand       `cmd:"" help:"Stop sending a client events." detail:"Pending events are not sent. The delivery log is kept." example:"connect-svc client webhook remove 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
}

// keysetSetting is the setting of the commands that seal or open the signing secrets of webhooks.
type keysetSetting struct {
	KeysetFile *credential.Keyring `setting:"" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals webhook signing secrets."`
}

func (s keysetSetting) open() (*credential.Keyring, error) {
	if s.KeysetFile == nil {
		return nil, settingError{"keyset-file", "is not set", settingTypes["keyset"].accepted}
	}
	return s.KeysetFile, nil
}

// inWebhooks runs act with the database's webhooks and clients. Keys seal signing secrets; nil if act needs none.
func (s databaseSetting) inWebhooks(p *program, keys *credential.Keyring, act func(*webhook.Webhooks, *client.Registry) error) error {
	do := func(pool *postgres.Pool) error {
		return act(webhook.New(pool, keys, webhook.Settings{}), client.NewRegistry(pool, oauth.EndConnectionsOfClient))
	}
	if keys == nil {
		return s.inDatabase(p, do)
	}
	return s.withKeyset(p, keys, do)
}

// endpointJSON is a client's webhook. StoppedAt is null unless it was stopped, RotatingUntil unless two secrets sign.
type endpointJSON struct {
	URL           string     `json:"url"`
	CreatedAt     time.Time  `json:"created_at"`
	StoppedAt     *time.Time `json:"stopped_at"`
	RotatingUntil *time.Time `json:"rotating_until"`
}

func toEndpointJSON(e webhook.Endpoint) endpointJSON {
	return endpointJSON{
		URL: e.URL, CreatedAt: e.CreatedAt.UTC(), StoppedAt: timeOrNull(e.StoppedAt), RotatingUntil: timeOrNull(e.RotatingUntil),
	}
}

// write is the rows of a client's webhook for people.
func (e endpointJSON) write(w io.Writer) {
	fmt.Fprintf(w, "webhook\t%s\n", e.URL)
	if e.StoppedAt != nil {
		fmt.Fprintf(w, "webhook stopped\t%s, because its receiver answered 410: set the URL again to resume\n", e.StoppedAt.Format(time.RFC3339))
	}
	if e.RotatingUntil != nil {
		fmt.Fprintf(w, "both secrets sign\tuntil %s\n", e.RotatingUntil.Format(time.RFC3339))
	}
}

// endpointOf is a client's webhook, nil if there is none.
func endpointOf(p *program, webhooks *webhook.Webhooks, id uuid.UUID) (*endpointJSON, error) {
	found, err := webhooks.Endpoint(p.ctx, id)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row := toEndpointJSON(found)
	return &row, nil
}

type clientWebhookJSON struct {
	ClientID uuid.UUID     `json:"client_id"`
	Webhook  *endpointJSON `json:"webhook"`
	// Secret is set only when it is new: it cannot be shown again.
	Secret string `json:"webhook_secret,omitempty"`
}

func (c clientCommands) showWebhook(p *program, webhooks *webhook.Webhooks, id uuid.UUID, secret string) error {
	row := clientWebhookJSON{ClientID: id, Secret: secret}
	var err error
	if row.Webhook, err = endpointOf(p, webhooks, id); err != nil {
		return err
	}
	return c.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "client id\t%s\n", id)
		if row.Webhook != nil {
			row.Webhook.write(w)
		}
		if secret != "" {
			fmt.Fprintf(w, "webhook secret\t%s\n", secret)
			fmt.Fprintln(w, "Save the secret now: it cannot be shown again.")
		} else {
			fmt.Fprintln(w, "The signing secret is unchanged.")
		}
	})
}

type clientWebhookSetCommand struct {
	clientID
	URL string `arg:"" help:"An https URL that the service can reach."`
	keysetSetting
}

func (c clientWebhookSetCommand) Run(p *program, group *clientCommands) error {
	if err := checkWebhookURL("<url>", c.URL); err != nil {
		return err
	}
	keys, err := c.open()
	if err != nil {
		return err
	}
	return group.inWebhooks(p, keys, func(webhooks *webhook.Webhooks, _ *client.Registry) error {
		secret, err := webhooks.SetEndpoint(p.ctx, c.ID, c.URL)
		if err != nil {
			return err
		}
		return group.showWebhook(p, webhooks, c.ID, secret)
	})
}

// checkWebhookURL turns an invalid URL into a usage error.
func checkWebhookURL(where, text string) error {
	var wrong *webhook.URLError
	if errors.As(webhook.ValidateURL(text), &wrong) {
		return usagef("%s: %s", where, wrong.Problem)
	}
	return nil
}

type clientWebhookRotateSecretCommand struct {
	clientID
	keysetSetting
}

func (c clientWebhookRotateSecretCommand) Run(p *program, group *clientCommands) error {
	keys, err := c.open()
	if err != nil {
		return err
	}
	return group.inWebhooks(p, keys, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		if _, err := clients.Get(p.ctx, c.ID); err != nil {
			return err
		}
		secret, err := webhooks.RotateSecret(p.ctx, c.ID)
		if err != nil {
			return err
		}
		return group.showWebhook(p, webhooks, c.ID, secret)
	})
}

type clientWebhookRemoveCommand struct{ clientID }

func (c clientWebhookRemoveCommand) Run(p *program, group *clientCommands) error {
	return group.inWebhooks(p, nil, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		if _, err := clients.Get(p.ctx, c.ID); err != nil {
			return err
		}
		if err := webhooks.RemoveEndpoint(p.ctx, c.ID); err != nil {
			return err
		}
		return group.print(p, clientWebhookJSON{ClientID: c.ID}, func(w io.Writer) {
			fmt.Fprintf(w, "client %s no longer has a webhook\n", c.ID)
		})
	})
}
