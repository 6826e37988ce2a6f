package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/refusal"
)

func (c *console) askAddress(r *http.Request, in writer, partner client.Client, _ refused) (confirmation, error) {
	endpoint, _, err := c.endpointOf(r, partner.ID)
	return confirmation{
		Names: []any{"Partner", partner.Name},
		Says:  []template.HTML{in.HTML("console.webhook.address.says")},
		Back:  c.hooksPath(partner),
		Fields: []field{{Name: "url", Type: "url", Label: in.HTML("console.webhook.address.label"),
			Hint: in.HTML("console.webhook.address.hint"), Max: webhook.MaxURL, Value: endpoint.URL}},
	}, err
}

// setAddress sets the webhook's address. For the first address it shows the new secret.
func (c *console) setAddress(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, err := site.ReadForm(w, r, "url")
	if err != nil {
		return err
	}
	secret, err := c.Webhooks.SetEndpoint(r.Context(), partner.ID, form["url"])
	if _, wrong := errors.AsType[*refusal.FieldError](err); wrong {
		return refused{form, err}
	}
	if err != nil || secret == "" {
		return outcome(err, c.hooksPath(partner), "webhook_set")
	}
	return c.writeWebhookSecret(w, r, partner, "console.webhook.address.set", secret)
}

func (c *console) askWebhookSecret(_ *http.Request, in writer, one hook, no refused) (confirmation, error) {
	says := []template.HTML{in.HTML("console.webhook.secret.says")}
	if !one.endpoint.RotatingUntil.IsZero() {
		says = append(says, in.HTML("console.webhook.secret.older_ends", "Until", instant(one.endpoint.RotatingUntil)))
	}
	x := confirmation{
		Names: []any{"Partner", one.partner.Name}, Says: says,
		Back:   c.hooksPath(one.partner),
		Hidden: []named{{"older", untilOf(one.endpoint.RotatingUntil)}},
	}
	if no.error != nil {
		x.Problem = in.HTML("console.secret.replaced_since")
	}
	return x, nil
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
	secret, err := c.Webhooks.RotateSecret(r.Context(), one.partner.ID, &older)
	if errors.Is(err, webhook.ErrReplacedSince) {
		return refused{form, err}
	}
	if err != nil {
		return err
	}
	endpoint, err := c.Webhooks.Endpoint(r.Context(), one.partner.ID)
	if err != nil {
		return err
	}
	return c.writeWebhookSecret(w, r, one.partner, "console.webhook.secret.replaced", secret,
		c.site.Locale(r).HTML("console.webhook.secret.old_until", "Until", instant(endpoint.RotatingUntil)))
}

func (c *console) confirmRemoveWebhook(r *http.Request, in writer, one hook, _ refused) (confirmation, error) {
	ends, err := c.previews().Client(r.Context(), one.partner)
	return confirmation{
		Names: []any{"Partner", one.partner.Name},
		Says: []template.HTML{
			in.HTML("console.webhook.remove.says"), in.HTML("console.webhook.remove.waiting", "Number", in.bounded(ends.Waiting)),
		},
		Grave: true, Back: c.hooksPath(one.partner),
	}, err
}

func (c *console) removeWebhook(_ http.ResponseWriter, r *http.Request, one hook) error {
	return outcome(c.Webhooks.RemoveEndpoint(r.Context(), one.partner.ID), c.hooksPath(one.partner), "webhook_removed")
}

// switched is an act, pause or resume.
func (c *console) switched(act string, change func(context.Context, uuid.UUID) (webhook.Endpoint, error)) handlers {
	ask := func(r *http.Request, in writer, one hook, _ refused) (confirmation, error) {
		ends, err := c.previews().Client(r.Context(), one.partner)
		return confirmation{
			Names: []any{"Partner", one.partner.Name},
			Says: []template.HTML{
				in.HTML("console.webhook." + act + ".says"), in.HTML("console.webhook.pause.waiting", "Number", in.bounded(ends.Waiting)),
			},
			Back: c.hooksPath(one.partner),
		}, err
	}
	return previewed(c, "webhook."+act, c.hookOf, ask, site.Confirmed(func(_ http.ResponseWriter, r *http.Request, one hook) error {
		_, err := change(r.Context(), one.partner.ID)
		return outcome(err, c.hooksPath(one.partner), "webhook_"+act+"d")
	}))
}

// webhookTest sends a sample event and shows the answer.
type webhookTest struct {
	aboutPartner
	URL   string
	Types []string
	Type  string       // of the sample
	Got   *attemptView // nil if not sent yet
}

var eventTypes = []string{webhook.ConnectionRevoked, webhook.ActivityUpdated}

func (c *console) showWebhookTest(w http.ResponseWriter, r *http.Request, one hook) error {
	return c.write(w, r, "webhook-test", webhookTest{
		aboutPartner: aboutPartner{one.partner, "webhooks"}, URL: one.endpoint.URL, Types: eventTypes, Type: eventTypes[0],
	})
}

func (c *console) testWebhook(w http.ResponseWriter, r *http.Request, one hook) error {
	form, err := site.ReadForm(w, r, "type")
	if err != nil {
		return err
	}
	attempt, err := c.Webhooks.SendSample(r.Context(), one.partner.ID, form["type"])
	if err != nil {
		return err
	}
	got := newAttemptView(attempt)
	return c.write(w, r, "webhook-test", webhookTest{
		aboutPartner: aboutPartner{one.partner, "webhooks"}, URL: one.endpoint.URL, Types: eventTypes, Type: form["type"], Got: &got,
	})
}

func (c *console) confirmReplay(r *http.Request, in writer, one hookEvent, _ refused) (confirmation, error) {
	endpoint, _, err := c.endpointOf(r, one.partner.ID)
	says := "console.webhook.replay.says"
	if !endpoint.PausedAt.IsZero() {
		says = "console.webhook.replay.paused"
	}
	return confirmation{
		Names: []any{"Partner", one.partner.Name},
		Says: []template.HTML{
			in.HTML(says, "ID", one.MessageID()), in.HTML("console.webhook.replay.attempts", "Count", one.AttemptCount),
		},
		Back: c.eventPath(one),
	}, err
}

func (c *console) replay(_ http.ResponseWriter, r *http.Request, one hookEvent) error {
	of, err := c.hookOf(r)
	if err != nil {
		return err
	}
	what := "event_replayed"
	if !of.endpoint.PausedAt.IsZero() {
		what = "event_waits"
	}
	return outcome(c.Webhooks.Replay(r.Context(), one.ID), c.eventPath(one), what)
}

// replayPart is the number of failed events that one form sends again.
const replayPart = 500

// confirmReplayFailed asks to send failed events again, one part after the other. queued is the size of the part before.
func (c *console) confirmReplayFailed(w http.ResponseWriter, r *http.Request, one hook) error {
	query, err := parseQuery(r, "queued")
	if err != nil {
		return err
	}
	if !one.endpoint.StoppedAt.IsZero() {
		return webhook.ErrStopped
	}
	_, failed, err := c.Webhooks.Waiting(r.Context(), one.partner.ID)
	if err != nil {
		return err
	}
	in := c.writer(r)
	x := replayFailedView{aboutPartner: aboutPartner{one.partner, "webhooks"}, Failed: in.bounded(failed), Next: min(failed, replayPart), More: failed > replayPart}
	if queued, err := strconv.Atoi(query["queued"]); err == nil && queued >= 0 {
		x.Queued, x.Done = in.number(queued), true
	}
	return c.write(w, r, "webhook-replay", x)
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
	queued, err := c.Webhooks.ReplayFailed(r.Context(), one.partner.ID, replayPart)
	if err != nil {
		return err
	}
	return site.Redirect(c.hooksPath(one.partner) + "/replay?queued=" + strconv.Itoa(queued))
}
