package console

import (
	"errors"
	"html/template"
	"net/http"
	"strconv"

	"connect-svc/internal/client"
	"connect-svc/internal/locale"
	"connect-svc/internal/refusal"
	"connect-svc/internal/web/site"
	"connect-svc/internal/webhook"
)

func (c *console) addressForm(in *locale.Locale, name, back, value string) confirmation {
	return confirmation{
		Title:  in.Text("console.webhook.address.heading", "Partner", name),
		Says:   []template.HTML{in.HTML("console.webhook.address.says")},
		Action: in.Text("console.webhook.address.act"), Back: back,
		Fields: []field{{Name: "url", Type: "url", Label: in.HTML("console.webhook.address.label"),
			Hint: in.HTML("console.webhook.address.hint"), Value: value, Max: webhook.MaxURL}},
	}
}

func (c *console) showAddress(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	endpoint, _, err := c.endpointOf(r, partner)
	if err != nil {
		return err
	}
	return c.confirm(w, r, "partners", c.addressForm(c.site.Locale(r), partner.Name, hooksPath(partner), endpoint.URL))
}

// setAddress sets the webhook's address. For the first address it shows the new secret.
func (c *console) setAddress(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, err := site.ReadForm(w, r, "url")
	if err != nil {
		return err
	}
	in := c.site.Locale(r)
	secret, err := c.Webhooks.SetEndpoint(r.Context(), partner.ID, form["url"])
	if wrong, is := errors.AsType[*refusal.FieldError](err); is {
		again := c.addressForm(in, partner.Name, hooksPath(partner), form["url"])
		again.Fields[0].refuse(in, wrong)
		return c.confirm(w, r, "partners", again)
	}
	if err != nil {
		return err
	}
	if secret == "" {
		return done(hooksPath(partner), "webhook_set")
	}
	return c.writeWebhookSecret(w, r, partner, "console.webhook.address.set", secret)
}

func (c *console) confirmWebhookSecret(w http.ResponseWriter, r *http.Request, one hook) error {
	return c.askWebhookSecret(w, r, one, "")
}

func (c *console) askWebhookSecret(w http.ResponseWriter, r *http.Request, one hook, problem template.HTML) error {
	partner, endpoint := one.partner, one.endpoint
	in := c.site.Locale(r)
	says := []template.HTML{in.HTML("console.webhook.secret.says")}
	if !endpoint.RotatingUntil.IsZero() {
		says = append(says, in.HTML("console.webhook.secret.older_ends", "Until", instant(endpoint.RotatingUntil)))
	}
	return c.confirm(w, r, "partners", confirmation{
		Title: in.Text("console.webhook.secret.heading", "Partner", partner.Name), Says: says,
		Action: in.Text("console.webhook.secret.act"), Back: hooksPath(partner),
		Hidden: []choice{{"older", untilOf(endpoint.RotatingUntil)}}, Problem: problem,
	})
}

func (c *console) replaceWebhookSecret(w http.ResponseWriter, r *http.Request, one hook) error {
	form, err := site.ReadForm(w, r, "older")
	if err != nil {
		return err
	}
	older, err := readUntil(form["older"])
	if err != nil {
		return err
	}
	partner := one.partner
	secret, failure := c.Webhooks.RotateSeenSecret(r.Context(), partner.ID, older)
	if failure != nil && !errors.Is(failure, webhook.ErrReplacedSince) {
		return failure
	}
	endpoint, err := c.Webhooks.Endpoint(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	if failure != nil {
		return c.askWebhookSecret(w, r, hook{partner, endpoint}, c.site.Locale(r).HTML("console.secret.replaced_since"))
	}
	return c.writeWebhookSecret(w, r, partner, "console.webhook.secret.replaced", secret,
		c.site.Locale(r).HTML("console.webhook.secret.old_until", "Until", instant(endpoint.RotatingUntil)))
}

func (c *console) confirmRemoveWebhook(w http.ResponseWriter, r *http.Request, one hook) error {
	partner := one.partner
	waiting, _, err := c.Webhooks.Waiting(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	in := newWriter(c.site.Locale(r))
	return c.confirm(w, r, "partners", confirmation{
		Title: in.Text("console.webhook.remove.heading", "Partner", partner.Name),
		Says: []template.HTML{
			in.HTML("console.webhook.remove.says"), in.HTML("console.webhook.remove.waiting", "Number", in.bounded(waiting)),
		},
		Action: in.Text("console.webhook.remove.act"), Grave: true, Back: hooksPath(partner),
	})
}

func (c *console) removeWebhook(_ http.ResponseWriter, r *http.Request, one hook) error {
	return outcome(c.Webhooks.RemoveEndpoint(r.Context(), one.partner.ID), hooksPath(one.partner), "webhook_removed")
}

// webhookTest sends a sample event and shows the answer.
type webhookTest struct {
	aboutPartner
	URL   string
	Types []string
	Type  string       // of the sample
	Got   *attemptView // nil: not sent yet
}

var eventTypes = []string{webhook.ConnectionRevoked, webhook.ActivityUpdated}

func (c *console) showWebhookTest(w http.ResponseWriter, r *http.Request, one hook) error {
	return c.write(w, r, "partners", "webhook-test", webhookTest{
		aboutPartner: aboutPartner{one.partner, "webhooks"}, URL: one.endpoint.URL, Types: eventTypes, Type: eventTypes[0],
	})
}

func (c *console) testWebhook(w http.ResponseWriter, r *http.Request, one hook) error {
	partner, endpoint := one.partner, one.endpoint
	form, err := site.ReadForm(w, r, "type")
	if err != nil {
		return err
	}
	attempt, err := c.Webhooks.SendSample(r.Context(), partner.ID, form["type"])
	if err != nil {
		return err
	}
	got := newAttemptView(attempt)
	return c.write(w, r, "partners", "webhook-test", webhookTest{
		aboutPartner: aboutPartner{partner, "webhooks"}, URL: endpoint.URL, Types: eventTypes, Type: form["type"], Got: &got,
	})
}

func (c *console) confirmReplay(w http.ResponseWriter, r *http.Request, one hookEvent) error {
	in := c.site.Locale(r)
	return c.confirm(w, r, "partners", confirmation{
		Title: in.Text("console.webhook.replay.heading", "Partner", one.partner.Name),
		Says: []template.HTML{
			in.HTML("console.webhook.replay.says", "ID", one.MessageID()), in.HTML("console.webhook.replay.attempts", "Count", one.AttemptCount),
		},
		Action: in.Text("console.webhook.replay.act"), Back: one.path(),
	})
}

func (c *console) replay(_ http.ResponseWriter, r *http.Request, one hookEvent) error {
	if _, err := c.hookOf(r); err != nil {
		return err
	}
	return outcome(c.Webhooks.Replay(r.Context(), one.ID), one.path(), "event_replayed")
}

// replayPart is the number of failed events that one form sends again.
const replayPart = 500

// confirmReplayFailed asks to send failed events again, one part after the other. queued is the size of the part before.
func (c *console) confirmReplayFailed(w http.ResponseWriter, r *http.Request, one hook) error {
	partner, endpoint := one.partner, one.endpoint
	query, err := parseQuery(r, "queued")
	if err != nil {
		return err
	}
	if !endpoint.StoppedAt.IsZero() {
		return webhook.ErrStopped
	}
	_, failed, err := c.Webhooks.Waiting(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	in := newWriter(c.site.Locale(r))
	x := replayFailedView{aboutPartner: aboutPartner{partner, "webhooks"}, Failed: in.bounded(failed), Next: min(failed, replayPart), More: failed > replayPart}
	if queued, err := strconv.Atoi(query["queued"]); err == nil && queued >= 0 {
		x.Queued, x.Done = in.number(queued), true
	}
	return c.write(w, r, "partners", "webhook-replay", x)
}

// replayFailedView has the numbers of queued, failed and next events.
type replayFailedView struct {
	aboutPartner
	Done   bool
	Queued string
	Failed string
	Next   int
	More   bool
}

func (c *console) replayFailed(_ http.ResponseWriter, r *http.Request, one hook) error {
	partner := one.partner
	queued, err := c.Webhooks.ReplayFailed(r.Context(), partner.ID, replayPart)
	if err != nil {
		return err
	}
	return site.Redirect(hooksPath(partner) + "/replay?queued=" + strconv.Itoa(queued))
}
