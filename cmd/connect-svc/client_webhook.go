package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/webhook"
)

type clientWebhookCommands struct {
	Set          clientWebhookSetCommand          `cmd:"" help:"Set the URL that receives a client's events." detail:"The signing secret is printed the first time only. A webhook that was stopped resumes." example:"connect-svc client webhook set 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 https://partner.example/webhooks"`
	RotateSecret clientWebhookRotateSecretCommand `cmd:"" help:"Replace the signing secret and print it once." detail:"Events are signed with both secrets for 24 hours." example:"connect-svc client webhook rotate-secret 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Remove       clientWebhookRemoveCommand       `cmd:"" help:"Stop sending a client events." detail:"Pending events are not sent. The delivery log is kept." example:"connect-svc client webhook remove 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
}

// sealingSetting is the setting of the commands that seal or open the signing secrets of webhooks.
type sealingSetting struct {
	KeysetFile *credential.Keyring `setting:"required" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals webhook signing secrets."`
}

// keysetSetting is that of the commands that may have to.
type keysetSetting struct {
	KeysetFile *credential.Keyring `setting:"" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals webhook signing secrets."`
}

// onlyIf leaves the keyset out where it is not needed, and notes that it is missing where it is.
func (s *keysetSetting) onlyIf(needed bool, from *source) {
	switch {
	case !needed:
		s.KeysetFile = nil
	case s.KeysetFile == nil && !from.hasRefused("keyset-file"):
		from.problems = append(from.problems, settingError{"keyset-file", "is not set", settingTypes["keyset"].accepted})
	}
}

// endpointJSON is a client's webhook. StoppedAt is null unless it was stopped, RotatingUntil unless two secrets sign.
type endpointJSON struct {
	URL           string     `json:"url"`
	CreatedAt     time.Time  `json:"created_at"`
	StoppedAt     *time.Time `json:"stopped_at"`
	RotatingUntil *time.Time `json:"rotating_until"`
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
func endpointOf(p *program, db *database, id uuid.UUID) (*endpointJSON, error) {
	found, err := db.webhooks().Endpoint(p.ctx, id)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return nil, nil
	}
	return &endpointJSON{
		URL: found.URL, CreatedAt: found.CreatedAt.UTC(), StoppedAt: timeOrNull(found.StoppedAt), RotatingUntil: timeOrNull(found.RotatingUntil),
	}, err
}

type clientWebhookJSON struct {
	ClientID uuid.UUID     `json:"client_id"`
	Webhook  *endpointJSON `json:"webhook"`
	// Secret is set only when it is new: it cannot be shown again.
	Secret string `json:"webhook_secret,omitempty"`
}

func (c clientCommands) showWebhook(p *program, db *database, id uuid.UUID, secret string) error {
	row := clientWebhookJSON{ClientID: id, Secret: secret}
	var err error
	if row.Webhook, err = endpointOf(p, db, id); err != nil {
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
	URL webhookURL `arg:"" help:"An https URL that the service can reach."`
	sealingSetting
}

func (c clientWebhookSetCommand) Run(p *program, group *clientCommands, db *database) error {
	webhooks, err := db.sealing(p, c.KeysetFile, webhook.Settings{})
	if err != nil {
		return err
	}
	secret, err := webhooks.SetEndpoint(p.ctx, c.ID, string(c.URL))
	if err != nil {
		return err
	}
	return group.showWebhook(p, db, c.ID, secret)
}

type clientWebhookRotateSecretCommand struct {
	clientID
	sealingSetting
}

func (c clientWebhookRotateSecretCommand) Run(p *program, group *clientCommands, db *database) error {
	webhooks, err := db.sealing(p, c.KeysetFile, webhook.Settings{})
	if err != nil {
		return err
	}
	if _, err := db.clients().Get(p.ctx, c.ID); err != nil {
		return err
	}
	secret, err := webhooks.RotateSecret(p.ctx, c.ID)
	if err != nil {
		return err
	}
	return group.showWebhook(p, db, c.ID, secret)
}

type clientWebhookRemoveCommand struct{ clientID }

func (c clientWebhookRemoveCommand) Run(p *program, group *clientCommands, db *database) error {
	if _, err := db.clients().Get(p.ctx, c.ID); err != nil {
		return err
	}
	if err := db.webhooks().RemoveEndpoint(p.ctx, c.ID); err != nil {
		return err
	}
	return group.say(p, clientWebhookJSON{ClientID: c.ID}, "client %s no longer has a webhook", c.ID)
}
