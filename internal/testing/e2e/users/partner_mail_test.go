package users_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A partner's contact gets an email about each change of an address or a secret that its own people made, and about each answer. An
// operator's changes cause none, and no email has a secret or an address of a webhook.
func TestEmailsToPartners(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	e.DB.Exec(t, "update clients set name = 'Stride Club', contact_email = 'team@stride.example' where client_id = $1", e.Partner.ID)
	kim, ada, id := work.WithActor(t.Context(), "partner:kim"), work.WithActor(t.Context(), "ada"), e.Partner.ID
	var secrets []string
	want := map[string]string{} // texts of the emails by subject
	next := func(subject, text string) { want[subject] = text }
	set := func(by string) {
		t.Helper()
		who := kim
		if by == "ada" {
			who = ada
		}
		secret, err := e.App.Webhooks.SetEndpoint(who, id, "https://stride.example/hooks?key=hush")
		secrets = append(secrets, secret)
		if err != nil {
			t.Fatal(err)
		}
	}
	set("ada")
	set("kim")
	next("The webhook’s address of Stride Club was changed", "tell the operator at once")
	if err := e.App.Webhooks.RemoveEndpoint(kim, id); err != nil {
		t.Fatal(err)
	}
	next("The webhook of Stride Club was removed", "set an address again")
	set("ada")
	replaced, err := e.App.Webhooks.RotateSecret(kim, id, webhook.SecretOverlap, nil)
	secrets = append(secrets, replaced)
	if err != nil {
		t.Fatal(err)
	}
	next("The webhook secret of Stride Club was replaced", "replaces the secret")
	rotated, err := e.App.Clients.RotateSecret(kim, id, 0)
	secrets = append(secrets, rotated.Secret)
	if err != nil {
		t.Fatal(err)
	}
	next("The client secret of Stride Club was replaced", "replaces the secret")
	if _, err := e.App.Clients.RotateSecret(ada, id, 0); err != nil {
		t.Fatal(err)
	}

	asks := func() client.ChangeRequest {
		t.Helper()
		if _, err := e.App.Clients.RequestChange(kim, id, func(r *client.Registration) { r.Policy.Burst++ }); err != nil {
			t.Fatal(err)
		}
		asked, err := e.App.Clients.ChangeRequest(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return asked
	}
	if _, err := e.App.Clients.RefuseChange(ada, id, asks().ID, "Not before your load test."); err != nil {
		t.Fatal(err)
	}
	next("The change that Stride Club requested is refused", "Not before your load test.")
	if _, err := e.App.Clients.ApproveChange(ada, id, asks().ID); err != nil {
		t.Fatal(err)
	}
	next("The change that Stride Club requested is approved", "It is in force")
	got := map[string]bool{}
	for range want {
		email := e.Mail.NextNotice(t)
		got[email.Subject] = true
		for _, text := range []string{want[email.Subject], "partner:kim", "UTC", e.Base} {
			if text == "" || !strings.Contains(email.Text, text) || !slices.Equal(email.To, []string{"team@stride.example"}) {
				t.Errorf("%s, to %s: the email lacks %q", email.Subject, email.To, text)
			}
		}
		for _, secret := range append(secrets, "hush") {
			if secret != "" && strings.Contains(email.Text, secret) {
				t.Errorf("%s: the email has a secret", email.Subject)
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("emails of %v", got)
	}
	e.DB.Exec(t, `insert into notices (recipient, kind, data) values ($1, 'partner_change', '{"by": "partner:kim, partner:lee", "what": "client_secret", "times": 3}')`, id)
	if several := e.Mail.NextNotice(t).Text; !strings.Contains(several, "How many times since: 3") || !strings.Contains(several, "partner:kim, partner:lee") {
		t.Errorf("the email about several changes says:\n%s", several)
	}
	e.DB.Exec(t, "update clients set contact_email = ''")
	set("kim")
	wait.Until(t, "no email waits", func() bool { return pgtest.Value[int](t, e.DB, "select count(*) from notices") == 0 })
	if e.Mail.NoticesWaiting() > 0 {
		t.Errorf("%d more emails", e.Mail.NoticesWaiting())
	}
}

// A reload gives these emails the operator's new texts, as it does all others.
func TestEmailsToPartnersAfterAReload(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	e.DB.Exec(t, "update clients set contact_email = 'team@stride.example' where client_id = $1", e.Partner.ID)
	config := e.Config
	var err error
	if config.Texts, err = locale.New(fstest.MapFS{"en.toml": {Data: []byte("[console.mail]\nclient_secret = \"A new secret of {{.Partner}}\"\n")}}); err != nil {
		t.Fatal(err)
	}
	if err := e.App.Reload(config, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.App.Clients.RotateSecret(work.WithActor(t.Context(), "partner:kim"), e.Partner.ID, 0); err != nil {
		t.Fatal(err)
	}
	if subject := e.Mail.NextNotice(t).Subject; !strings.HasPrefix(subject, "A new secret of ") {
		t.Errorf("the subject is %q", subject)
	}
}
