package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
)

type clientCommands struct {
	output
	databaseSetting
	Create         clientCreateCommand         `cmd:"" help:"Register a client and print its secrets once." example:"connect-svc client create --name 'Walk Rewards' --callback https://partner.example/callback --scope daily_steps:read --scope cycling_daily:read"`
	List           clientListCommand           `cmd:"" help:"List all clients, oldest first." example:"connect-svc client list"`
	Show           clientActCommand            `cmd:"" help:"Show one client." example:"connect-svc client show 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Update         clientUpdateCommand         `cmd:"" help:"Change a client's registration." detail:"Only what is named changes. Giving a contact, URL or logo as an empty string removes it." example:"connect-svc client update 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --burst 120 --scope daily_steps:read"`
	RotateSecret   clientRotateSecretCommand   `cmd:"" help:"Replace its secret and print the new one once." detail:"The old secret stops working immediately, or after --overlap. A secret older than that one stops in any case." example:"connect-svc client rotate-secret 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --overlap 24h"`
	Disable        clientActCommand            `cmd:"" help:"Lock a client out; its connections are kept." example:"connect-svc client disable 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Enable         clientActCommand            `cmd:"" help:"Let a disabled client back in." example:"connect-svc client enable 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Webhook        clientWebhookCommands       `cmd:"" help:"Manage where a client's events are sent."`
	Errors         clientErrorsCommand         `cmd:"" help:"List refused requests and the true reasons." detail:"Newest first: the last 1,000 of the client, and the last 100 that named it without proof, such as with a wrong secret. They are there after some seconds, and are kept for 35 days." example:"connect-svc client errors 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	PortalLink     clientPortalLinkCommand     `cmd:"" help:"Create a link to a client's own pages." detail:"A person at the partner who opens it sees the client's requests, webhooks, secrets and audit log for 12 hours. The link works once." example:"connect-svc client portal-link 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --name kim"`
	PortalSessions clientPortalSessionsCommand `cmd:"" help:"List or end links and sessions of its pages." example:"connect-svc client portal-sessions 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	ChangeRequests clientChangeRequestsCommand `cmd:"" help:"List the changes that partners ask for." detail:"Oldest first. Each partner has one open request at a time." example:"connect-svc client change-requests"`
	ChangeRequest  clientChangeRequestCommand  `cmd:"" help:"Show, approve or refuse what a partner asks for." detail:"The last request is shown, with its answer if it has one. Nothing changes until it is approved." example:"connect-svc client change-request 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --approve 3f0b7c1e-8a55-4c02-9d3e-2a6f0c5c2b77"`
	RevokeTokens   clientRevokeTokensCommand   `cmd:"" help:"Revoke all tokens of a client." detail:"For a partner whose tokens leaked. Replace its secret first. Its users have to connect again. The client stays, and gets an event for each connection." example:"connect-svc client revoke-tokens 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --yes"`
	Offboard       clientOffboardCommand       `cmd:"" help:"Permanently end a client and all its connections." example:"connect-svc client offboard 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --yes"`
}

// registration has the flags that both create and update have.
type registration struct {
	RequestsPerMinute *int32    `placeholder:"N" help:"Sustained activity requests per minute (default 600)."`
	Burst             *int32    `placeholder:"N" help:"Activity requests allowed in a burst (default 60)."`
	ConcurrentReads   *int32    `placeholder:"N" help:"Concurrent activity requests (default 10)."`
	ContactEmail      *string   `placeholder:"EMAIL" help:"Contact address at the company."`
	Homepage          *string   `placeholder:"URL" help:"The company's website, as users see it."`
	PrivacyURL        *string   `name:"privacy-url" placeholder:"URL" help:"The company's privacy policy, linked from the consent page."`
	TermsURL          *string   `name:"terms-url" placeholder:"URL" help:"The company's terms, linked from the consent page."`
	Logo              *logoFile `placeholder:"FILE" help:"The company's logo, SVG or PNG, up to 64 KiB."`
	WebhookURL        *string   `name:"webhook-url" placeholder:"URL" help:"URL that receives events. Needs the keyset."`
	WebhookParallel   *int32    `placeholder:"N" help:"Events that each server sends concurrently, 1 to 64 (default 8). Raise it for a slow receiver."`
	settings.OptionalKeyset
}

// AfterApply implements a hook of kong: the keyset is for the webhook's secret alone.
func (r *registration) AfterApply(from *settings.Source) error {
	r.OnlyIf(r.WebhookURL != nil && *r.WebhookURL != "", from)
	return nil
}

func (r registration) change() operatorapi.ClientChange {
	return operatorapi.ClientChange{
		RequestsPerMinute: r.RequestsPerMinute, Burst: r.Burst, ConcurrentReads: r.ConcurrentReads, ContactEmail: r.ContactEmail,
		HomepageUrl: r.Homepage, PrivacyUrl: r.PrivacyURL, TermsUrl: r.TermsURL, Logo: (*string)(r.Logo),
		WebhookUrl: r.WebhookURL, WebhookParallel: r.WebhookParallel,
	}
}

// logoFile is a flag that names a file, which it holds in base64. An empty name means none.
type logoFile string

func (l *logoFile) UnmarshalText(name []byte) error {
	*l = ""
	if len(name) == 0 {
		return nil
	}
	content, _, err := settings.ReadLogo(string(name))
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	*l = logoFile(base64.StdEncoding.EncodeToString(content))
	return nil
}

// scopes is a flag that is given once for each scope.
type scopes []string

func (s scopes) list() (list []operatorapi.Scope) {
	for _, name := range strings.Fields(strings.Join(s, " ")) {
		list = append(list, operatorapi.Scope(name))
	}
	return list
}

type clientCreateCommand struct {
	Name     string `required:"" placeholder:"NAME" help:"The company's name, as users see it."`
	Callback string `required:"" placeholder:"URL" help:"The HTTPS callback URL. There is one, and it must match exactly."`
	Scope    scopes `required:"" placeholder:"SCOPE" help:"A scope the client may request; repeat the flag for each."`
	registration
	BaseURL string `setting:"" type:"origin" placeholder:"ORIGIN" help:"The service's https://host[:port] origin, for the next steps that are printed."`
}

func (c clientCreateCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	with := c.change()
	created, err := decode[operatorapi.CreatedClient](api.CreateClient(p.ctx, operatorapi.ClientRegistration{
		Name: c.Name, CallbackUrl: c.Callback, Scopes: c.Scope.list(),
		RequestsPerMinute: with.RequestsPerMinute, Burst: with.Burst, ConcurrentReads: with.ConcurrentReads,
		ContactEmail: with.ContactEmail, HomepageUrl: with.HomepageUrl, PrivacyUrl: with.PrivacyUrl, TermsUrl: with.TermsUrl,
		Logo: with.Logo, WebhookUrl: with.WebhookUrl, WebhookParallel: with.WebhookParallel,
	}))
	if err != nil {
		return err
	}
	note := saveSecret
	if created.WebhookSecret != nil {
		note = "Save both secrets now: they cannot be shown again."
	}
	err = group.show(p, created, secretFields, note)
	warnOfLookAlikes(p, created.LookAlikes)
	if api.cause != nil {
		return errors.Join(err, fmt.Errorf("the client was registered, but not its webhook: %w", api.cause))
	}
	if err != nil || group.Output == "json" {
		return err
	}
	return c.printNextSteps(p, created)
}

// Texts for people: a new secret, and a client.
const (
	secretFields = "client_id client_secret old_secret_until webhook_secret"
	saveSecret   = "Save the secret now: it is not stored and cannot be shown again."
	clientFields = "client_id name status callback_url scopes requests_per_minute burst concurrent_reads contact_email homepage_url " +
		"privacy_url terms_url logo webhook_parallel created_at old_secret_until" + webhookFields
)

type clientListCommand struct {
	clientQuery
}

// clientQuery is the flag of the commands that list clients.
type clientQuery struct {
	Query string `xor:"which" placeholder:"TEXT" help:"Only clients with this text in the name or the contact's address, or at the beginning of the id."`
}

func (c clientQuery) param() *operatorapi.ClientQuery {
	if c.Query == "" {
		return nil
	}
	return &c.Query
}

func (c clientListCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		return api.ListClients(p.ctx, &operatorapi.ListClientsParams{Query: c.param(), Limit: new(pageRows), Cursor: cursor})
	}), "client_id status name scopes")
}

// clientID is the argument of the commands on one client.
type clientID struct {
	ID clientRef `arg:"" help:"The client's id or name."`
}

// clientActCommand shows, disables or enables a client, by the name of the command.
type clientActCommand struct{ clientID }

func (c clientActCommand) Run(p *program, group *clientCommands, api *operatorAPI, command *kong.Context) error {
	act := map[string]func(context.Context, uuid.UUID, ...operatorapi.RequestEditorFn) (*http.Response, error){
		"show": api.ReadClient, "disable": api.DisableClient, "enable": api.EnableClient,
	}[command.Selected().Name]
	found, err := decode[operatorapi.Client](act(p.ctx, c.ID.UUID))
	if err != nil {
		return err
	}
	return group.show(p, found, clientFields, webhookNotes(found.Webhook, nil)...)
}

type clientRotateSecretCommand struct {
	clientID
	Overlap time.Duration `default:"0s" placeholder:"DURATION" help:"How long the old secret keeps working, in whole seconds, up to 720h (default ${default})."`
}

func (c clientRotateSecretCommand) AfterApply() error {
	if c.Overlap < 0 || c.Overlap > 720*time.Hour || c.Overlap%time.Second != 0 {
		return usagef("--overlap: must be 0 or whole seconds, at most 720h")
	}
	return nil
}

func (c clientRotateSecretCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	rotated, err := decode[operatorapi.RotatedClientSecret](api.RotateClientSecret(p.ctx, c.ID.UUID, operatorapi.ClientSecretRotation{
		OverlapSeconds: new(int32(c.Overlap / time.Second)),
	}))
	if err != nil {
		return err
	}
	return group.show(p, rotated, secretFields, saveSecret)
}

type clientUpdateCommand struct {
	clientID
	Name     *string `help:"The company's name, as users see it."`
	Callback *string `placeholder:"URL" help:"The HTTPS callback URL. Authorizations in progress with the old one end."`
	Scope    scopes  `placeholder:"SCOPE" help:"A scope the client may request; repeat the flag for each. Replaces all scopes. Connections with a removed scope can no longer be refreshed."`
	registration
}

func (c clientUpdateCommand) change() operatorapi.ClientChange {
	change := c.registration.change()
	change.Name, change.CallbackUrl, change.Scopes = c.Name, c.Callback, c.Scope.list()
	return change
}

func (c *clientUpdateCommand) AfterApply(from *settings.Source) error {
	if reflect.ValueOf(c.change()).IsZero() {
		return usagef("nothing to change: give at least one flag, such as --burst 120")
	}
	return c.registration.AfterApply(from)
}

func (c clientUpdateCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	changed, err := decode[operatorapi.ChangedClient](api.ChangeClient(p.ctx, c.ID.UUID, c.change()))
	if err != nil {
		return err
	}
	warnOfLookAlikes(p, changed.LookAlikes)
	return group.show(p, changed.Client, clientFields, webhookNotes(changed.Client.Webhook, changed.Client.WebhookSecret)...)
}

type clientOffboardCommand struct {
	clientID
	confirmation
}

type clientRevokeTokensCommand struct {
	clientID
	confirmation
}

func (c clientRevokeTokensCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	found, err := decode[operatorapi.Client](api.ReadClient(p.ctx, c.ID.UUID))
	if err != nil {
		return err
	}
	if err := c.confirm(p, fmt.Sprintf("revoke all tokens of client %s (%s)", c.ID.UUID, found.Name)); err != nil {
		return err
	}
	revoked, err := decode[operatorapi.RevokedClientTokens](api.RevokeClientTokens(p.ctx, c.ID.UUID))
	if err != nil {
		return err
	}
	return group.say(p, revoked, "the tokens of client %s are revoked; %s revoked", c.ID.UUID, count(revoked.ConnectionsRevoked, "connection"))
}

func (c clientOffboardCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	usage, err := decode[operatorapi.Usage](api.ReadClientUsage(p.ctx, c.ID.UUID, &operatorapi.ReadClientUsageParams{}))
	if err != nil {
		return err
	}
	ending := "connections"
	if of := usage.Connections; of.Precision == operatorapi.ConnectionCountsPrecisionExact {
		ending = count(of.Authorized+of.Lapsed+of.Revoked, "connection")
	}
	if err := c.confirm(p, fmt.Sprintf("permanently end client %s (%s) and its %s", c.ID.UUID, usage.Name, ending)); err != nil {
		return err
	}
	ended, err := decode[operatorapi.OffboardedClient](api.OffboardClient(p.ctx, c.ID.UUID))
	if err != nil {
		return err
	}
	return group.say(p, ended, "client %s is offboarded; %s ended", c.ID.UUID, count(ended.ConnectionsEnded, "connection"))
}

type clientErrorsCommand struct{ clientID }

func (c clientErrorsCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		return api.ListClientErrors(p.ctx, c.ID.UUID, &operatorapi.ListClientErrorsParams{Limit: new(pageRows), Cursor: cursor})
	}), "at requests operation status code authenticated reason request_ids")
}
