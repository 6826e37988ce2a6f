package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/brand"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/scope"
	"connect-svc/internal/webhook"
)

type clientCommands struct {
	output
	databaseSetting
	Create       clientCreateCommand       `cmd:"" help:"Register a client and print its secrets once." example:"connect-svc client create --name 'Walk Rewards' --callback https://partner.example/callback --scope daily_steps:read --scope cycling_daily:read"`
	List         clientListCommand         `cmd:"" help:"List all clients, oldest first." example:"connect-svc client list"`
	Show         clientShowCommand         `cmd:"" help:"Show one client." example:"connect-svc client show 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Update       clientUpdateCommand       `cmd:"" help:"Change a client's registration." detail:"Only what is named changes. Giving a contact, URL or logo as an empty string removes it." example:"connect-svc client update 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --burst 120 --scope daily_steps:read"`
	RotateSecret clientRotateSecretCommand `cmd:"" help:"Replace a client's secret and print the new one once." detail:"The old secret stops working immediately, or after --overlap. A secret older than that one stops in any case." example:"connect-svc client rotate-secret 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --overlap 24h"`
	Disable      clientDisableCommand      `cmd:"" help:"Lock a client out; its connections are kept." example:"connect-svc client disable 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Enable       clientEnableCommand       `cmd:"" help:"Let a disabled client back in." example:"connect-svc client enable 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Webhook      clientWebhookCommands     `cmd:"" help:"Manage where a client's events are sent."`
	Errors       clientErrorsCommand       `cmd:"" help:"List a client's refused requests and the true reasons." detail:"Newest first: the last 1,000 of the client, and the last 100 that named it without proof, such as with a wrong secret. They are there after some seconds, and are kept for 35 days." example:"connect-svc client errors 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Offboard     clientOffboardCommand     `cmd:"" help:"Permanently end a client and all its connections." example:"connect-svc client offboard 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --yes"`
}

type clientCreateCommand struct {
	Name              string   `required:"" placeholder:"NAME" help:"The company's name, as users see it."`
	Callback          string   `required:"" placeholder:"URL" help:"The HTTPS callback URL. There is one, and it must match exactly."`
	Scope             []string `required:"" sep:"none" help:"A scope the client may request; repeat the flag for each."`
	RequestsPerMinute int      `default:"600" placeholder:"N" help:"Sustained activity requests per minute (default ${default})."`
	Burst             int      `default:"60" placeholder:"N" help:"Activity requests allowed in a burst (default ${default})."`
	ConcurrentReads   int      `default:"10" placeholder:"N" help:"Concurrent activity requests (default ${default})."`
	ContactEmail      string   `placeholder:"EMAIL" help:"Contact address at the company."`
	Homepage          string   `placeholder:"URL" help:"The company's website, as users see it."`
	PrivacyURL        string   `name:"privacy-url" placeholder:"URL" help:"The company's privacy policy, linked from the consent page."`
	TermsURL          string   `name:"terms-url" placeholder:"URL" help:"The company's terms, linked from the consent page."`
	Logo              string   `placeholder:"FILE" help:"The company's logo, SVG or PNG, up to 64 KiB."`
	WebhookURL        string   `name:"webhook-url" placeholder:"URL" help:"URL that receives events. Needs the keyset."`
	WebhookParallel   int      `default:"8" placeholder:"N" help:"Events that each server sends concurrently, 1 to 64 (default ${default})."`
	BaseURL           string   `setting:"" type:"origin" placeholder:"ORIGIN" help:"The service's https://host[:port] origin, for the next steps that are printed."`
	keysetSetting
}

// clientSecretJSON is shown once.
type clientSecretJSON struct {
	ClientID      uuid.UUID `json:"client_id"`
	ClientSecret  string    `json:"client_secret"`
	WebhookSecret string    `json:"webhook_secret,omitempty"` // if there is a webhook
	// OldSecretUntil is there where the secret of before works for a while yet.
	OldSecretUntil *time.Time `json:"old_secret_until,omitempty"`
}

func (c clientCreateCommand) Run(p *program, group *clientCommands) error {
	scopes, err := scopesOf(c.Scope)
	if err != nil {
		return err
	}
	logo, err := logoFlag(c.Logo)
	if err != nil {
		return err
	}
	var keys *credential.Keyring
	if c.WebhookURL != "" {
		if err := checkWebhookURL("--webhook-url", c.WebhookURL); err != nil {
			return err
		}
		if keys, err = c.open(); err != nil {
			return err
		}
	}
	return group.inWebhooks(p, keys, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		similar, err := clients.LookAlikes(p.ctx, c.Name, uuid.Nil)
		if err != nil {
			return err
		}
		created, secret, err := clients.Create(p.ctx, client.Registration{
			Name:        c.Name,
			CallbackURL: c.Callback,
			Scopes:      scopes,
			Policy: client.Policy{
				RequestsPerMinute: c.RequestsPerMinute,
				Burst:             c.Burst,
				ConcurrentReads:   c.ConcurrentReads,
			},
			ContactEmail:    c.ContactEmail,
			HomepageURL:     c.Homepage,
			PrivacyURL:      c.PrivacyURL,
			TermsURL:        c.TermsURL,
			Logo:            logo,
			WebhookParallel: c.WebhookParallel,
		})
		if err != nil {
			return err
		}
		result := clientSecretJSON{ClientID: created.ID, ClientSecret: secret}
		if c.WebhookURL != "" {
			result.WebhookSecret, err = webhooks.SetEndpoint(p.ctx, created.ID, c.WebhookURL)
			if err != nil {
				err = fmt.Errorf("the client was registered, but not its webhook: %w", err)
			}
		}
		// Whatever became of the webhook, the client exists, and its secret cannot be shown again.
		err = errors.Join(group.showSecret(p, result), err)
		warnOfLookAlikes(p, similar)
		if err != nil || group.Output == "json" {
			return err
		}
		return c.printNextSteps(p, result)
	})
}

// logoFlag reads the file of --logo; none is no logo.
func logoFlag(file string) (brand.Logo, error) {
	if file == "" {
		return brand.Logo{}, nil
	}
	logo, err := readLogo(file)
	if err != nil {
		return brand.Logo{}, usagef("--logo: %s %v", file, err)
	}
	return logo, nil
}

func scopesOf(names []string) (scope.Set, error) {
	scopes, err := scope.Parse(strings.Join(names, " "))
	if err != nil {
		return 0, usagef("--scope: must be one or more of %s, each once", strings.Join(scope.All.Names(), ", "))
	}
	return scopes, nil
}

func (c clientCommands) showSecret(p *program, row clientSecretJSON) error {
	return c.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "client id\t%s\n", row.ClientID)
		fmt.Fprintf(w, "client secret\t%s\n", row.ClientSecret)
		if row.OldSecretUntil != nil {
			fmt.Fprintf(w, "old secret works\tuntil %s\n", row.OldSecretUntil.Format(time.RFC3339))
		}
		if row.WebhookSecret == "" {
			fmt.Fprintln(w, "Save the secret now: it is not stored and cannot be shown again.")
			return
		}
		fmt.Fprintf(w, "webhook secret\t%s\n", row.WebhookSecret)
		fmt.Fprintln(w, "Save both secrets now: they cannot be shown again.")
	})
}

type clientJSON struct {
	ClientID          uuid.UUID     `json:"client_id"`
	Name              string        `json:"name"`
	Status            client.Status `json:"status"`
	CallbackURL       string        `json:"callback_url"`
	Scopes            []string      `json:"scopes"`
	RequestsPerMinute int           `json:"requests_per_minute"`
	Burst             int           `json:"burst"`
	ConcurrentReads   int           `json:"concurrent_reads"`
	ContactEmail      string        `json:"contact_email"`
	HomepageURL       string        `json:"homepage_url"`
	PrivacyURL        string        `json:"privacy_url"`
	TermsURL          string        `json:"terms_url"`
	Logo              string        `json:"logo"` // the name under which it is served
	WebhookParallel   int           `json:"webhook_parallel"`
	CreatedAt         time.Time     `json:"created_at"`
	OldSecretUntil    *time.Time    `json:"old_secret_until"` // null unless the secret of before works, too
}

func toClientJSON(c client.Client) clientJSON {
	return clientJSON{
		ClientID:          c.ID,
		Name:              c.Name,
		Status:            c.Status,
		CallbackURL:       c.CallbackURL,
		Scopes:            c.Scopes.Names(),
		RequestsPerMinute: c.Policy.RequestsPerMinute,
		Burst:             c.Policy.Burst,
		ConcurrentReads:   c.Policy.ConcurrentReads,
		ContactEmail:      c.ContactEmail,
		HomepageURL:       c.HomepageURL,
		PrivacyURL:        c.PrivacyURL,
		TermsURL:          c.TermsURL,
		Logo:              c.Logo.Name,
		WebhookParallel:   c.WebhookParallel,
		CreatedAt:         c.CreatedAt.UTC(),
		OldSecretUntil:    timeOrNull(c.OverlapUntil),
	}
}

// clientDetailJSON is what is known of one client.
type clientDetailJSON struct {
	clientJSON
	Webhook *endpointJSON `json:"webhook"` // null if there is none
	// WebhookSecret is there only when it is new: it cannot be shown again.
	WebhookSecret string `json:"webhook_secret,omitempty"`
}

type clientListCommand struct{}

func (clientListCommand) Run(p *program, group *clientCommands) error {
	return group.inWebhooks(p, nil, func(_ *webhook.Webhooks, clients *client.Registry) error {
		list, err := allPages(func(after client.Position, limit int) ([]client.Client, error) {
			return clients.List(p.ctx, after, limit)
		}, client.Client.Position)
		if err != nil {
			return err
		}
		rows := make([]clientJSON, len(list))
		for i, c := range list {
			rows[i] = toClientJSON(c)
		}
		return group.print(p, rows, func(w io.Writer) {
			fmt.Fprintln(w, "CLIENT ID\tSTATUS\tNAME\tSCOPES")
			for _, c := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.ID, c.Status, c.Name, c.Scopes)
			}
		})
	})
}

// clientID is the argument of the commands on one client.
type clientID struct {
	ID uuid.UUID `arg:"" help:"The client's id."`
}

type (
	clientShowCommand    struct{ clientID }
	clientDisableCommand struct{ clientID }
	clientEnableCommand  struct{ clientID }
)

type clientRotateSecretCommand struct {
	clientID
	Overlap time.Duration `default:"0s" placeholder:"DURATION" help:"How long the old secret keeps working, in whole seconds, up to 720h (default ${default})."`
}

func (c clientShowCommand) Run(p *program, group *clientCommands) error {
	return group.inWebhooks(p, nil, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		return group.show(p, webhooks, clients, c.ID, "")
	})
}

func (c clientDisableCommand) Run(p *program, group *clientCommands) error {
	return group.setStatus(p, c.ID, (*client.Registry).Disable)
}

func (c clientEnableCommand) Run(p *program, group *clientCommands) error {
	return group.setStatus(p, c.ID, (*client.Registry).Enable)
}

func (c clientCommands) setStatus(p *program, id uuid.UUID, set func(*client.Registry, context.Context, uuid.UUID) error) error {
	return c.inWebhooks(p, nil, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		if err := set(clients, p.ctx, id); err != nil {
			return err
		}
		return c.show(p, webhooks, clients, id, "")
	})
}

func (c clientRotateSecretCommand) Run(p *program, group *clientCommands) error {
	return group.inWebhooks(p, nil, func(_ *webhook.Webhooks, clients *client.Registry) error {
		rotated, err := clients.RotateSecret(p.ctx, c.ID, c.Overlap)
		if err != nil {
			return err
		}
		return group.showSecret(p, clientSecretJSON{
			ClientID: c.ID, ClientSecret: rotated.Secret, OldSecretUntil: timeOrNull(rotated.OverlapUntil),
		})
	})
}

// clientUpdateCommand has the flags of clientCreateCommand, none of them required.
type clientUpdateCommand struct {
	clientID
	Name              *string  `help:"The company's name, as users see it."`
	Callback          *string  `placeholder:"URL" help:"The HTTPS callback URL. Authorizations in progress with the old one end."`
	Scope             []string `sep:"none" help:"A scope the client may request; repeat the flag for each. Replaces all scopes. Connections with a removed scope can no longer be refreshed."`
	RequestsPerMinute *int     `placeholder:"N" help:"Sustained activity requests per minute."`
	Burst             *int     `placeholder:"N" help:"Activity requests allowed in a burst."`
	ConcurrentReads   *int     `placeholder:"N" help:"Concurrent activity requests."`
	ContactEmail      *string  `placeholder:"EMAIL" help:"Contact address at the company."`
	Homepage          *string  `placeholder:"URL" help:"The company's website, as users see it."`
	PrivacyURL        *string  `name:"privacy-url" placeholder:"URL" help:"The company's privacy policy, linked from the consent page."`
	TermsURL          *string  `name:"terms-url" placeholder:"URL" help:"The company's terms, linked from the consent page."`
	Logo              *string  `placeholder:"FILE" help:"The company's logo, SVG or PNG, up to 64 KiB."`
	WebhookURL        *string  `name:"webhook-url" placeholder:"URL" help:"URL that receives events; empty for none. Needs the keyset."`
	WebhookParallel   *int     `placeholder:"N" help:"Events that each server sends concurrently, 1 to 64. Raise it for a slow receiver."`
	keysetSetting
}

func (c clientUpdateCommand) Run(p *program, group *clientCommands) error {
	var scopes *scope.Set
	if c.Scope != nil {
		set, err := scopesOf(c.Scope)
		if err != nil {
			return err
		}
		scopes = &set
	}
	changesRegistration := scopes != nil || c.Name != nil || c.Callback != nil || c.RequestsPerMinute != nil ||
		c.Burst != nil || c.ConcurrentReads != nil || c.ContactEmail != nil || c.Homepage != nil ||
		c.WebhookParallel != nil || c.PrivacyURL != nil || c.TermsURL != nil || c.Logo != nil
	if !changesRegistration && c.WebhookURL == nil {
		return usagef("nothing to change: give at least one flag, such as --burst 120")
	}
	var logo *brand.Logo
	if c.Logo != nil {
		read, err := logoFlag(*c.Logo)
		if err != nil {
			return err
		}
		logo = &read
	}
	var keys *credential.Keyring
	if c.WebhookURL != nil && *c.WebhookURL != "" {
		err := checkWebhookURL("--webhook-url", *c.WebhookURL)
		if err == nil {
			keys, err = c.open()
		}
		if err != nil {
			return err
		}
	}
	return group.inWebhooks(p, keys, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		if changesRegistration {
			if _, err := clients.Update(p.ctx, c.ID, func(r *client.Registration) {
				replace(&r.Name, c.Name)
				replace(&r.CallbackURL, c.Callback)
				replace(&r.Scopes, scopes)
				replace(&r.Policy.RequestsPerMinute, c.RequestsPerMinute)
				replace(&r.Policy.Burst, c.Burst)
				replace(&r.Policy.ConcurrentReads, c.ConcurrentReads)
				replace(&r.ContactEmail, c.ContactEmail)
				replace(&r.HomepageURL, c.Homepage)
				replace(&r.PrivacyURL, c.PrivacyURL)
				replace(&r.TermsURL, c.TermsURL)
				replace(&r.Logo, logo)
				replace(&r.WebhookParallel, c.WebhookParallel)
			}); err != nil {
				return err
			}
		}
		if c.Name != nil {
			similar, err := clients.LookAlikes(p.ctx, *c.Name, c.ID)
			if err != nil {
				return err
			}
			warnOfLookAlikes(p, similar)
		}
		secret, err := c.updateWebhook(p, webhooks, clients)
		if err != nil {
			return err
		}
		return group.show(p, webhooks, clients, c.ID, secret)
	})
}

// updateWebhook returns a signing secret where a new one was made. Removing a webhook that does not exist is no error.
func (c clientUpdateCommand) updateWebhook(
	p *program, webhooks *webhook.Webhooks, clients *client.Registry,
) (secret string, err error) {
	switch {
	case c.WebhookURL == nil:
		return "", nil
	case *c.WebhookURL != "":
		return webhooks.SetEndpoint(p.ctx, c.ID, *c.WebhookURL)
	}
	if _, err := clients.Get(p.ctx, c.ID); err != nil {
		return "", err
	}
	if err := webhooks.RemoveEndpoint(p.ctx, c.ID); err != nil && !errors.Is(err, webhook.ErrNoEndpoint) {
		return "", err
	}
	return "", nil
}

// replace sets value if there is a new one.
func replace[T any](value, changed *T) {
	if changed != nil {
		*value = *changed
	}
}

type clientOffboardCommand struct {
	clientID
	confirmation
}

type offboardedJSON struct {
	ClientID         uuid.UUID     `json:"client_id"`
	Status           client.Status `json:"status"`
	ConnectionsEnded int64         `json:"connections_ended"`
}

func (c clientOffboardCommand) Run(p *program, group *clientCommands) error {
	return group.inWebhooks(p, nil, func(_ *webhook.Webhooks, clients *client.Registry) error {
		found, err := clients.Get(p.ctx, c.ID)
		if err != nil {
			return err
		}
		connections, err := clients.Connections(p.ctx, c.ID)
		if err != nil {
			return err
		}
		if err := c.confirm(p, fmt.Sprintf("permanently end client %s (%s) and its %s",
			c.ID, found.Name, count(connections, "connection"))); err != nil {
			return err
		}
		ended, err := clients.Offboard(p.ctx, c.ID)
		if err != nil {
			return err
		}
		return group.print(p, offboardedJSON{c.ID, client.Offboarded, ended}, func(w io.Writer) {
			fmt.Fprintf(w, "client %s is offboarded; %s ended\n", c.ID, count(ended, "connection"))
		})
	})
}

func (c clientCommands) show(
	p *program, webhooks *webhook.Webhooks, clients *client.Registry, id uuid.UUID, webhookSecret string,
) error {
	found, err := clients.Get(p.ctx, id)
	if err != nil {
		return err
	}
	row := clientDetailJSON{clientJSON: toClientJSON(found), WebhookSecret: webhookSecret}
	if row.Webhook, err = endpointOf(p, webhooks, id); err != nil {
		return err
	}
	return c.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "client id\t%s\n", row.ClientID)
		fmt.Fprintf(w, "name\t%s\n", row.Name)
		fmt.Fprintf(w, "status\t%s\n", row.Status)
		fmt.Fprintf(w, "callback\t%s\n", row.CallbackURL)
		fmt.Fprintf(w, "scopes\t%s\n", found.Scopes)
		fmt.Fprintf(w, "requests per minute\t%d\n", row.RequestsPerMinute)
		fmt.Fprintf(w, "burst\t%d\n", row.Burst)
		fmt.Fprintf(w, "concurrent reads\t%d\n", row.ConcurrentReads)
		fmt.Fprintf(w, "contact\t%s\n", row.ContactEmail)
		fmt.Fprintf(w, "homepage\t%s\n", row.HomepageURL)
		fmt.Fprintf(w, "privacy policy\t%s\n", row.PrivacyURL)
		fmt.Fprintf(w, "terms\t%s\n", row.TermsURL)
		fmt.Fprintf(w, "logo\t%s\n", row.Logo)
		fmt.Fprintf(w, "webhook parallel\t%d\n", row.WebhookParallel)
		fmt.Fprintf(w, "created\t%s\n", row.CreatedAt.Format(time.RFC3339))
		if row.OldSecretUntil != nil {
			fmt.Fprintf(w, "old secret works\tuntil %s\n", row.OldSecretUntil.Format(time.RFC3339))
		}
		if row.Webhook != nil {
			row.Webhook.write(w)
		}
		if webhookSecret != "" {
			fmt.Fprintf(w, "webhook secret\t%s\n", webhookSecret)
			fmt.Fprintln(w, "Save the secret now: it cannot be shown again.")
		}
	})
}
