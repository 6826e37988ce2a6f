package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/operator"
	"connect-svc/internal/client"
	"connect-svc/internal/page"
	"connect-svc/internal/usage"
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
	Name              string     `required:"" placeholder:"NAME" help:"The company's name, as users see it."`
	Callback          string     `required:"" placeholder:"URL" help:"The HTTPS callback URL. There is one, and it must match exactly."`
	Scope             scopes     `required:"" placeholder:"SCOPE" help:"A scope the client may request; repeat the flag for each."`
	RequestsPerMinute int        `default:"600" placeholder:"N" help:"Sustained activity requests per minute (default ${default})."`
	Burst             int        `default:"60" placeholder:"N" help:"Activity requests allowed in a burst (default ${default})."`
	ConcurrentReads   int        `default:"10" placeholder:"N" help:"Concurrent activity requests (default ${default})."`
	ContactEmail      string     `placeholder:"EMAIL" help:"Contact address at the company."`
	Homepage          string     `placeholder:"URL" help:"The company's website, as users see it."`
	PrivacyURL        string     `name:"privacy-url" placeholder:"URL" help:"The company's privacy policy, linked from the consent page."`
	TermsURL          string     `name:"terms-url" placeholder:"URL" help:"The company's terms, linked from the consent page."`
	Logo              logoFile   `placeholder:"FILE" help:"The company's logo, SVG or PNG, up to 64 KiB."`
	WebhookURL        webhookURL `name:"webhook-url" placeholder:"URL" help:"URL that receives events. Needs the keyset."`
	WebhookParallel   int        `default:"8" placeholder:"N" help:"Events that each server sends concurrently, 1 to 64 (default ${default})."`
	BaseURL           string     `setting:"" type:"origin" placeholder:"ORIGIN" help:"The service's https://host[:port] origin, for the next steps that are printed."`
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

// AfterApply implements a hook of kong: the keyset is for the webhook's secret alone.
func (c *clientCreateCommand) AfterApply(from *source) error {
	c.onlyIf(c.WebhookURL != "", from)
	return nil
}

func (c clientCreateCommand) Run(p *program, group *clientCommands, db *database) error {
	webhooks, err := db.sealing(p, c.KeysetFile, webhook.Settings{})
	if err != nil {
		return err
	}
	similar, err := db.clients().LookAlikes(p.ctx, c.Name, uuid.Nil)
	if err != nil {
		return err
	}
	created, secret, err := db.clients().Create(p.ctx, client.Registration{
		Name:        c.Name,
		CallbackURL: c.Callback,
		Scopes:      c.Scope.Set,
		Policy: client.Policy{
			RequestsPerMinute: c.RequestsPerMinute,
			Burst:             c.Burst,
			ConcurrentReads:   c.ConcurrentReads,
		},
		ContactEmail:    c.ContactEmail,
		HomepageURL:     c.Homepage,
		PrivacyURL:      c.PrivacyURL,
		TermsURL:        c.TermsURL,
		Logo:            c.Logo.Logo,
		WebhookParallel: c.WebhookParallel,
	})
	if err != nil {
		return err
	}
	result := clientSecretJSON{ClientID: created.ID, ClientSecret: secret}
	if c.WebhookURL != "" {
		result.WebhookSecret, err = webhooks.SetEndpoint(p.ctx, created.ID, string(c.WebhookURL))
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

// clientJSON is a client as the operator API has it, with the instants as they are stored.
type clientJSON struct {
	operatorapi.Client
	CreatedAt      time.Time  `json:"created_at"`
	OldSecretUntil *time.Time `json:"old_secret_until"` // null unless the secret of before works, too
}

func toClientJSON(c client.Client) clientJSON {
	return clientJSON{operator.ClientBody(c), c.CreatedAt.UTC(), timeOrNull(c.OverlapUntil)}
}

// clientDetailJSON is what is known of one client.
type clientDetailJSON struct {
	clientJSON
	Webhook *endpointJSON `json:"webhook"` // null if there is none
	// WebhookSecret is there only when it is new: it cannot be shown again.
	WebhookSecret string `json:"webhook_secret,omitempty"`
}

type clientListCommand struct{}

func (clientListCommand) Run(p *program, group *clientCommands, db *database) error {
	rows := paged(func(after page.Key) ([]client.Client, error) {
		return db.clients().List(p.ctx, after, listPage)
	}, client.Client.Key)
	return stream(group.output, p, rows, toClientJSON, "CLIENT ID\tSTATUS\tNAME\tSCOPES", func(w io.Writer, c client.Client) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.ID, c.Status, c.Name, c.Scopes)
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

func (c clientShowCommand) Run(p *program, group *clientCommands, db *database) error {
	return group.show(p, db, c.ID, "")
}

func (c clientDisableCommand) Run(p *program, group *clientCommands, db *database) error {
	if err := db.clients().Disable(p.ctx, c.ID); err != nil {
		return err
	}
	return group.show(p, db, c.ID, "")
}

func (c clientEnableCommand) Run(p *program, group *clientCommands, db *database) error {
	if err := db.clients().Enable(p.ctx, c.ID); err != nil {
		return err
	}
	return group.show(p, db, c.ID, "")
}

func (c clientRotateSecretCommand) Run(p *program, group *clientCommands, db *database) error {
	rotated, err := db.clients().RotateSecret(p.ctx, c.ID, c.Overlap)
	if err != nil {
		return err
	}
	return group.showSecret(p, clientSecretJSON{
		ClientID: c.ID, ClientSecret: rotated.Secret, OldSecretUntil: timeOrNull(rotated.OverlapUntil),
	})
}

// clientUpdateCommand has the flags of clientCreateCommand, none of them required.
type clientUpdateCommand struct {
	clientID
	clientChanges
	WebhookURL *webhookURL `name:"webhook-url" placeholder:"URL" help:"URL that receives events; empty for none. Needs the keyset."`
	keysetSetting
}

// clientChanges are the flags that change a registration; the zero value changes nothing.
type clientChanges struct {
	Name              *string   `help:"The company's name, as users see it."`
	Callback          *string   `placeholder:"URL" help:"The HTTPS callback URL. Authorizations in progress with the old one end."`
	Scope             scopes    `placeholder:"SCOPE" help:"A scope the client may request; repeat the flag for each. Replaces all scopes. Connections with a removed scope can no longer be refreshed."`
	RequestsPerMinute *int      `placeholder:"N" help:"Sustained activity requests per minute."`
	Burst             *int      `placeholder:"N" help:"Activity requests allowed in a burst."`
	ConcurrentReads   *int      `placeholder:"N" help:"Concurrent activity requests."`
	ContactEmail      *string   `placeholder:"EMAIL" help:"Contact address at the company."`
	Homepage          *string   `placeholder:"URL" help:"The company's website, as users see it."`
	PrivacyURL        *string   `name:"privacy-url" placeholder:"URL" help:"The company's privacy policy, linked from the consent page."`
	TermsURL          *string   `name:"terms-url" placeholder:"URL" help:"The company's terms, linked from the consent page."`
	Logo              *logoFile `placeholder:"FILE" help:"The company's logo, SVG or PNG, up to 64 KiB."`
	WebhookParallel   *int      `placeholder:"N" help:"Events that each server sends concurrently, 1 to 64. Raise it for a slow receiver."`
}

func (c clientChanges) apply(r *client.Registration) {
	replace(&r.Name, c.Name)
	replace(&r.CallbackURL, c.Callback)
	if c.Scope.Set != 0 {
		r.Scopes = c.Scope.Set
	}
	replace(&r.Policy.RequestsPerMinute, c.RequestsPerMinute)
	replace(&r.Policy.Burst, c.Burst)
	replace(&r.Policy.ConcurrentReads, c.ConcurrentReads)
	replace(&r.ContactEmail, c.ContactEmail)
	replace(&r.HomepageURL, c.Homepage)
	replace(&r.PrivacyURL, c.PrivacyURL)
	replace(&r.TermsURL, c.TermsURL)
	if c.Logo != nil {
		r.Logo = c.Logo.Logo
	}
	replace(&r.WebhookParallel, c.WebhookParallel)
}

// AfterApply implements a hook of kong: the keyset is for the webhook's secret alone.
func (c *clientUpdateCommand) AfterApply(from *source) error {
	c.onlyIf(c.WebhookURL != nil && *c.WebhookURL != "", from)
	if c.clientChanges == (clientChanges{}) && c.WebhookURL == nil {
		return usagef("nothing to change: give at least one flag, such as --burst 120")
	}
	return nil
}

func (c clientUpdateCommand) Run(p *program, group *clientCommands, db *database) error {
	webhooks, err := db.sealing(p, c.KeysetFile, webhook.Settings{})
	if err != nil {
		return err
	}
	if c.clientChanges != (clientChanges{}) {
		if _, err := db.clients().Update(p.ctx, c.ID, c.apply); err != nil {
			return err
		}
	}
	if c.Name != nil {
		similar, err := db.clients().LookAlikes(p.ctx, *c.Name, c.ID)
		if err != nil {
			return err
		}
		warnOfLookAlikes(p, similar)
	}
	secret := "" // where a new one was made
	switch {
	case c.WebhookURL == nil:
	case *c.WebhookURL != "":
		secret, err = webhooks.SetEndpoint(p.ctx, c.ID, string(*c.WebhookURL))
	default:
		if _, err := db.clients().Get(p.ctx, c.ID); err != nil {
			return err
		}
		if err = webhooks.RemoveEndpoint(p.ctx, c.ID); errors.Is(err, webhook.ErrNoEndpoint) {
			err = nil // there was none
		}
	}
	if err != nil {
		return err
	}
	return group.show(p, db, c.ID, secret)
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

func (c clientOffboardCommand) Run(p *program, group *clientCommands, db *database) error {
	clients := db.clients()
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
	return group.say(p, offboardedJSON{c.ID, client.Offboarded, ended}, "client %s is offboarded; %s ended", c.ID, count(ended, "connection"))
}

func (c clientCommands) show(p *program, db *database, id uuid.UUID, webhookSecret string) error {
	found, err := db.clients().Get(p.ctx, id)
	if err != nil {
		return err
	}
	row := clientDetailJSON{clientJSON: toClientJSON(found), WebhookSecret: webhookSecret}
	if row.Webhook, err = endpointOf(p, db, id); err != nil {
		return err
	}
	return c.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "client id\t%s\n", row.ClientId)
		fmt.Fprintf(w, "name\t%s\n", row.Name)
		fmt.Fprintf(w, "status\t%s\n", row.Status)
		fmt.Fprintf(w, "callback\t%s\n", row.CallbackUrl)
		fmt.Fprintf(w, "scopes\t%s\n", found.Scopes)
		fmt.Fprintf(w, "requests per minute\t%d\n", row.RequestsPerMinute)
		fmt.Fprintf(w, "burst\t%d\n", row.Burst)
		fmt.Fprintf(w, "concurrent reads\t%d\n", row.ConcurrentReads)
		fmt.Fprintf(w, "contact\t%s\n", row.ContactEmail)
		fmt.Fprintf(w, "homepage\t%s\n", row.HomepageUrl)
		fmt.Fprintf(w, "privacy policy\t%s\n", row.PrivacyUrl)
		fmt.Fprintf(w, "terms\t%s\n", row.TermsUrl)
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

type clientErrorsCommand struct {
	ID uuid.UUID `arg:"" placeholder:"ID" help:"The client's id."`
}

// clientErrorJSON is a refused request as the operator API has it, with the instant as it is stored.
type clientErrorJSON struct {
	operatorapi.ClientError
	At time.Time `json:"at"` // of the last of the requests
}

func toClientErrorJSON(e usage.ClientError) clientErrorJSON {
	return clientErrorJSON{operator.ClientErrorBody(e), e.At.UTC()}
}

func (c clientErrorsCommand) Run(p *program, group *clientCommands, db *database) error {
	rows := paged(func(after page.Key) ([]usage.ClientError, error) {
		return db.usage().Errors(p.ctx, c.ID, after, listPage)
	}, usage.ClientError.Key)
	return stream(group.output, p, rows, toClientErrorJSON, "LAST AT\tREQUESTS\tOPERATION\tSTATUS\tCODE\tCLIENT\tREASON",
		func(w io.Writer, row usage.ClientError) {
			client := "proven"
			if !row.Authenticated {
				client = "named"
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", row.At.UTC().Format(time.RFC3339), row.Requests, row.Operation,
				row.Status, row.Code, client, row.Reason)
		})
}
