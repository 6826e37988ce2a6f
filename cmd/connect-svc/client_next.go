package main

import (
	"cmp"
	"fmt"
	"text/template"

	"connect-svc/gen/operatorapi"
)

// nextSteps tells a person what to do with a new client. It never repeats a secret.
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

// printNextSteps writes to standard error: a script reads standard output, and one that wants JSON needs no advice.
func (c clientCreateCommand) printNextSteps(p *program, created operatorapi.CreatedClient) error {
	return nextSteps.Execute(p.stderr, struct {
		operatorapi.CreatedClient
		BaseURL, Callback string
	}{created, cmp.Or(c.BaseURL, "https://<your service>"), c.Callback})
}

// warnOfLookAlikes only warns, because two companies may have similar names.
func warnOfLookAlikes(p *program, similar []operatorapi.LookAlike) {
	for _, c := range similar {
		fmt.Fprintf(p.stderr, "connect-svc: warning: the name is easily mistaken for that of client %s, %q\n", c.ClientId, c.Name)
	}
}
