package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/template"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
)

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

// AfterApply implements a hook of kong: the keyset is for the webhook's secret alone.
func (c *clientCreateCommand) AfterApply(source *settings.Source) error {
	c.OnlyIf(c.WebhookURL != nil && *c.WebhookURL != "", source)
	return nil
}

func (c *clientUpdateCommand) AfterApply(source *settings.Source) error {
	if reflect.ValueOf(c.change()).IsZero() {
		return usagef("nothing to change: give at least one flag, such as --burst 120")
	}
	c.OnlyIf(c.WebhookURL != nil && *c.WebhookURL != "", source)
	return nil
}

func (c clientRotateSecretCommand) AfterApply() error {
	if c.Overlap < 0 || c.Overlap > 720*time.Hour || c.Overlap%time.Second != 0 {
		return usagef("--overlap: must be 0 or whole seconds, at most 720h")
	}
	return nil
}

func (c clientPortalLinkCommand) AfterApply() error {
	if c.Valid < time.Minute || c.Valid > 24*time.Hour || c.Valid%time.Second != 0 {
		return usagef("--valid: must be 1m to 24h, in whole seconds")
	}
	return nil
}

func (c clientPortalSessionsCommand) AfterApply() error {
	if c.End != nil && c.EndAll {
		return usagef("--end-all: ends what --end would end, too")
	}
	return nil
}

func (c clientChangeRequestCommand) AfterApply() error {
	if (c.Refuse != nil) != (c.Answer != "") {
		return usagef("--answer: is for --refuse, which needs one")
	}
	return nil
}

// print tells a person what to do with a new client. Standard error has the advice: a script reads standard output.
func (c clientCreateCommand) print(p *program, group *clientCommands, api *operatorAPI, created operatorapi.CreatedClient, names string) error {
	note := "Save the secret now: it is not stored and cannot be shown again."
	if created.WebhookSecret != nil {
		note = "Save both secrets now: they cannot be shown again."
	}
	err := group.show(p, created, names, note)
	warnOfLookAlikes(p, created.LookAlikes)
	if api.cause != nil {
		return errors.Join(err, fmt.Errorf("the client was registered, but not its webhook: %w", api.cause))
	}
	if err != nil || group.Output == "json" {
		return err
	}
	return nextSteps.Execute(p.stderr, struct {
		operatorapi.CreatedClient
		BaseURL, Callback string
	}{created, cmp.Or(c.BaseURL, "https://<your service>"), c.Callback})
}

// nextSteps never repeats a secret.
var nextSteps = template.Must(template.New("").Parse(`
Next steps

1. Send the client ID and the secret{{if .WebhookSecret}}s{{end}} to the partner through a channel that only the partner
   can read, such as a shared vault or a one-time link, never by email or chat.
   To replace a lost client secret:

     connect-svc client rotate-secret {{.ClientId}}

2. The partner's service needs these settings, for example in its .env file:

     CONNECT_BASE_URL={{.BaseURL}}
     CONNECT_CLIENT_ID={{.ClientId}}
     CONNECT_CLIENT_SECRET=<the client secret>
     CONNECT_CALLBACK_URL='{{.Callback}}'
{{- if .WebhookSecret}}
     CONNECT_WEBHOOK_SECRET=<the webhook secret>

3. Once the partner's webhook receiver is up, send it a test event:
{{- else}}

3. To notify the partner of changes, set a webhook and send it a test event:

     connect-svc client webhook set {{.ClientId}} <url>
{{- end}}
     connect-svc webhook test --client {{.ClientId}}

4. Quick start, guides and reference for the partner's engineers:

     {{.BaseURL}}/developers/
`))

func (c clientUpdateCommand) print(p *program, group *clientCommands, _ *operatorAPI, changed operatorapi.ChangedClient, names string) error {
	warnOfLookAlikes(p, changed.LookAlikes)
	return group.show(p, changed.Client, names, clientNotes(changed.Client)...)
}

// warnOfLookAlikes only warns, because two companies may have similar names.
func warnOfLookAlikes(p *program, similar []operatorapi.LookAlike) {
	for _, c := range similar {
		fmt.Fprintf(p.stderr, "connect-svc: warning: the name is easily mistaken for that of client %s, %q\n", c.ClientId, c.Name)
	}
}

func (c clientPortalLinkCommand) print(p *program, group *clientCommands, _ *operatorAPI, made operatorapi.PortalLink, names string) error {
	made.Url = c.BaseURL + made.Url
	return group.show(p, made, names, "The link works once and is shown once. Send it so that only that person can read it.")
}

// clientNotes, webhookNotes and signingNotes are lines that people read below a client, a webhook and its secret.
func clientNotes(client operatorapi.Client) (notes []string) {
	if client.Webhook != nil {
		notes = webhookNotes(*client.Webhook)
	}
	if client.WebhookSecret != nil {
		notes = append(notes, "Save the secret now: it cannot be shown again.")
	}
	return notes
}

func webhookNotes(webhook operatorapi.Webhook) (notes []string) {
	if webhook.StoppedAt != nil {
		notes = append(notes, "The webhook was stopped because its receiver answered 410. Set its URL again to resume.")
	}
	if webhook.PausedAt != nil {
		notes = append(notes, "The webhook is paused: its events wait until it resumes.")
	}
	return notes
}

func signingNotes(set operatorapi.WebhookWithSecret) []string {
	note := "The signing secret is unchanged."
	if set.WebhookSecret != nil {
		note = "Save the secret now: it cannot be shown again."
	}
	return append(webhookNotes(set.Webhook), note)
}

func writeChangeRequest(w io.Writer, request operatorapi.ChangeRequest) {
	fields(w, request, "request_id client_id state requested_by requested_at answered_by answered_at answer")
	heading(w, len(request.Changes), "FIELD\tNOW\tREQUESTED")
	for _, change := range request.Changes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", change.Field, change.Before, change.After)
	}
}

func (c clientOffboardCommand) question(preview operatorapi.ClientPreview) string {
	ending := "connections"
	if counts := preview.Connections; counts.Precision == operatorapi.ConnectionCountsPrecisionExact {
		ending = count(counts.Authorized+counts.Lapsed+counts.Revoked, "connection")
	}
	return fmt.Sprintf("permanently end client %s (%s) and its %s", c.ID.UUID, preview.Name, ending)
}
