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
type scopes []operatorapi.Scope

func (s *scopes) UnmarshalText(names []byte) error {
	before := len(*s)
	for _, name := range strings.FieldsFunc(string(names), func(r rune) bool { return r == ' ' || r == ',' }) {
		*s = append(*s, operatorapi.Scope(name))
	}
	if len(*s) == before {
		return errors.New("must be a scope")
	}
	return nil
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
	warnOfLookAlikes(p.stderr, created.LookAlikes)
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
	warnOfLookAlikes(p.stderr, changed.LookAlikes)
	return group.show(p, changed.Client, names, clientNotes(changed.Client)...)
}

// warnOfLookAlikes only warns, because two companies may have similar names.
func warnOfLookAlikes(w io.Writer, similar []operatorapi.LookAlike) {
	for _, c := range similar {
		fmt.Fprintf(w, "connect-svc: warning: the name is easily mistaken for that of client %s, %q\n", c.ClientId, c.Name)
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
	warnOfLookAlikes(w, request.LookAlikes)
}

func writeSuspended(w io.Writer, suspended operatorapi.SuspendedClient) {
	fields(w, suspended.Client, "client_id name status")
	heading(w, len(suspended.Changes), "AT\tACTOR\tCHANGE\tDETAIL")
	for _, change := range suspended.Changes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", change.At, change.Actor, change.Action, printable(string(change.Detail)))
	}
}

func writeResumed(w io.Writer, resumed operatorapi.ResumedClient) {
	fields(w, resumed.Client, "client_id name status webhook.url")
	fields(w, resumed, "client_secret webhook_secret")
	fmt.Fprintln(w, "Save the secrets now: they cannot be shown again.")
}

func (c clientOffboardCommand) question(preview operatorapi.ClientPreview) string {
	ending := "connections"
	if counts := preview.Connections; counts.Precision == operatorapi.ConnectionCountsPrecisionExact {
		ending = count(counts.Authorized+counts.Lapsed+counts.Revoked, "connection")
	}
	return fmt.Sprintf("permanently end client %s (%s) and its %s", c.ID.UUID, preview.Name, ending)
}

// connectionsText is how many connections a client has, for people.
func connectionsText(c operatorapi.ConnectionCounts) string {
	counts := fmt.Sprintf("%d authorized, %d lapsed, %d revoked, %d disconnected", c.Authorized, c.Lapsed, c.Revoked, c.Disconnected)
	switch c.Precision {
	case operatorapi.ConnectionCountsPrecisionEstimated:
		return "about " + counts
	case operatorapi.ConnectionCountsPrecisionAtLeast:
		return "at least " + counts
	case operatorapi.ConnectionCountsPrecisionUnknown:
		return "too many to count in time"
	}
	return counts
}

func writeUsage(w io.Writer, value operatorapi.Usage) {
	fmt.Fprintf(w, "client\t%s\n", value.Name)
	fmt.Fprintf(w, "from, to\t%s, %s\n", value.Since, value.Until)
	fmt.Fprintf(w, "connections\t%s\n", connectionsText(value.Connections))
	fmt.Fprintf(w, "budget used\t%.1f %% of %d requests a minute; %.1f %% in the busiest minute\n",
		100*value.BudgetUsed, value.RequestsPerMinute, 100*value.PeakBudgetUsed)
	figures := func(name string, f operatorapi.Figures) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f %%\t%d\t%d\t%.1f ms\t%.1f ms\n", name, f.Requests, f.RateLimited,
			100*f.RateLimitedShare, f.Refused, f.Failed, f.P50Ms, f.P99Ms)
	}
	const columns = "REQUESTS\t429\t429 SHARE\tOTHER 4XX\t5XX\tP50\tP99"
	fmt.Fprintln(w, "\nOPERATION\t"+columns)
	for _, operation := range value.Operations {
		figures(operation.Operation, operation.Figures)
	}
	figures("all", value.Total)
	heading(w, len(value.Hours), "HOUR (UTC)\t"+columns)
	for _, hour := range value.Hours {
		figures(hour.Hour, hour.Figures)
	}
}

func writeReport(w io.Writer, report operatorapi.Report) {
	name := "all clients"
	if report.Name != nil {
		name = printable(*report.Name)
	}
	f := report.Total
	fmt.Fprintf(w, "report of\t%s\n", name)
	fmt.Fprintf(w, "days\t%s to %s\n", report.Since, report.Until)
	fmt.Fprintf(w, "connections\t%s\n", connectionsText(f.Connections))
	fmt.Fprintf(w, "made, refreshed, lapsed\t%d, %d, %d\n", f.ConnectionsMade, f.Refreshed, f.Lapsed)
	fmt.Fprintf(w, "revoked\t%d by the client, %d replayed, %d by an operator\n", f.Revoked.ByClient, f.Revoked.Replayed, f.Revoked.ByOperator)
	fmt.Fprintf(w, "disconnected\t%d by the user, %d by the client, %d by an operator, %d with the account, %d with the client\n",
		f.Disconnected.ByUser, f.Disconnected.ByClient, f.Disconnected.ByOperator, f.Disconnected.WithAccount, f.Disconnected.WithClient)
	fmt.Fprintf(w, "active on the busiest day\t%d users, %d clients\n", f.ActiveUsers, f.ActiveClients)
	fmt.Fprintf(w, "requests\t%d, %d of them 429, %d other 4xx, %d 5xx; p50 %.1f ms, p99 %.1f ms\n", f.Requests.Requests, f.Requests.RateLimited,
		f.Requests.Refused, f.Requests.Failed, f.Requests.P50Ms, f.Requests.P99Ms)
	fmt.Fprintf(w, "sign-in codes\t%d sent, %d tried\n", f.CodesSent, f.CodesTried)
	fmt.Fprintf(w, "webhooks\t%d delivered, %d given up\n", f.WebhooksDelivered, f.WebhooksFailed)
	fmt.Fprintln(w, "\nDAY (UTC)\tMADE\tREFRESHED\tLAPSED\tREVOKED\tDISCONNECTED\tUSERS\tREQUESTS\t429\t5XX\tP99\tCODES\tWEBHOOKS\tGIVEN UP")
	for _, day := range report.Days {
		f := day.Figures
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f ms\t%d\t%d\t%d\n", day.Day, f.ConnectionsMade, f.Refreshed, f.Lapsed,
			f.Revoked.ByClient+f.Revoked.Replayed+f.Revoked.ByOperator,
			f.Disconnected.ByUser+f.Disconnected.ByClient+f.Disconnected.ByOperator+f.Disconnected.WithAccount+f.Disconnected.WithClient,
			f.ActiveUsers, f.Requests.Requests, f.Requests.RateLimited, f.Requests.Failed, f.Requests.P99Ms, f.CodesSent, f.WebhooksDelivered, f.WebhooksFailed)
	}
}
