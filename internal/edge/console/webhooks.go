package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
)

func (c *console) hooksPath(partner client.Client) string {
	return c.partnerPath(partner.ID) + "/webhooks"
}

// eventStates lists the filters of the list.
var eventStates = []string{"", string(webhook.Pending), string(webhook.Failed), string(webhook.Delivered)}

// eventList is a partner's webhook and a page of its events, newest first.
type eventList struct {
	aboutPartner
	Endpoint webhook.Endpoint
	Set      bool // the webhook has an address
	Waiting  string
	Failed   string
	AnyFail  bool

	State  string // the filters
	Grant  string
	States []choice // of the tabs, with their addresses
	Rows   []webhook.Event
	Pages  pages
}

func (c *console) listEvents(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "state", "grant")
	if err != nil {
		return err
	}
	if !slices.Contains(eventStates, query["state"]) {
		return site.ErrBadForm
	}
	list := eventList{aboutPartner: aboutPartner{partner, "webhooks"}, State: query["state"], Grant: query["grant"]}
	for _, state := range eventStates {
		to := url.Values{}
		for name, value := range map[string]string{"state": state, "grant": list.Grant} {
			if value != "" {
				to.Set(name, value)
			}
		}
		list.States = append(list.States, choice{state, (&url.URL{Path: c.hooksPath(partner), RawQuery: to.Encode()}).String()})
	}
	if list.Endpoint, list.Set, err = c.endpointOf(r, partner.ID); err != nil {
		return err
	}
	waiting, failed, err := c.Webhooks.Waiting(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	say := c.writer(r)
	list.Waiting, list.Failed, list.AnyFail = say.bounded(waiting), say.bounded(failed), failed > 0
	var user uuid.UUID
	if list.Grant != "" {
		if user, err = c.userOfGrant(r.Context(), partner, list.Grant); err != nil || user == uuid.Nil {
			return cmp.Or(err, c.write(w, r, "webhooks", list))
		}
	}
	list.Rows, list.Pages, err = listing(r, firstCursor, "webhook events", func(after page.Key, limit int) ([]webhook.Event, error) {
		return c.Webhooks.Events(r.Context(), webhook.Filter{
			ClientID: partner.ID, UserID: user, State: webhook.State(list.State), After: after, Limit: limit, LatestFirst: true,
		})
	}, webhook.Event.Key)
	if err != nil {
		return err
	}
	return c.write(w, r, "webhooks", list)
}

func (c *console) endpointOf(r *http.Request, partner uuid.UUID) (endpoint webhook.Endpoint, set bool, err error) {
	endpoint, err = c.Webhooks.Endpoint(r.Context(), partner)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return webhook.Endpoint{}, false, nil
	}
	return endpoint, err == nil, err
}

// hook is a partner's webhook.
type hook struct {
	partner  client.Client
	endpoint webhook.Endpoint
}

// hookOf returns the webhook of the partner in the path. Errors: webhook.ErrNoEndpoint, refusal.ErrClientOffboarded.
func (c *console) hookOf(r *http.Request) (endpoint hook, err error) {
	if endpoint.partner, err = c.changeable(r); err != nil {
		return endpoint, err
	}
	endpoint.endpoint, err = c.Webhooks.Endpoint(r.Context(), endpoint.partner.ID)
	return endpoint, err
}

// shownAnswer is how many bytes of an answer the page of an event shows.
const shownAnswer = 1000

// eventView is one event with its attempts, newest first.
type eventView struct {
	aboutPartner
	Event    webhook.Event
	Body     string
	Attempts []attemptView
	Replay   bool // it can be sent again
}

// attemptView is an attempt with its answer as text.
type attemptView struct {
	webhook.Attempt
	Answer string
	Cut    bool // the answer was longer
}

func newAttemptView(a webhook.Attempt) attemptView {
	shown := a.Response[:min(len(a.Response), shownAnswer)]
	return attemptView{a, visible(strings.ToValidUTF8(string(shown), "\uFFFD")), len(shown) < len(a.Response)}
}

// visible replaces the characters of a text that nobody sees, but that could change what is seen, such as an escape or a change of
// direction: by their pictures, or by their numbers. Line feeds and tabs stay.
func visible(text string) string {
	var shown strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			shown.WriteRune(r)
		case r < ' ':
			shown.WriteRune('\u2400' + r)
		case r == 0x7f:
			shown.WriteRune('\u2421')
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&shown, "⟨U+%04X⟩", r)
		default:
			shown.WriteRune(r)
		}
	}
	return shown.String()
}

// hookEvent is an event of a partner.
type hookEvent struct {
	webhook.Event
	partner client.Client
}

func (c *console) eventPath(event hookEvent) string {
	return c.hooksPath(event.partner) + "/" + event.ID.String()
}

// eventOf returns the event in the path.
func (c *console) eventOf(r *http.Request) (event hookEvent, err error) {
	if event.partner, err = c.partnerOf(r); err != nil {
		return event, err
	}
	id, err := site.PathID(r, "event")
	if err != nil {
		return event, err
	}
	event.Event, err = c.Webhooks.Event(r.Context(), id)
	if err == nil && event.ClientID != event.partner.ID {
		err = webhook.ErrNoEvent
	}
	return event, err
}

func (c *console) showEvent(w http.ResponseWriter, r *http.Request, shown hookEvent) error {
	partner, event := shown.partner, shown.Event
	endpoint, set, err := c.endpointOf(r, partner.ID)
	if err != nil {
		return err
	}
	body, err := event.Body()
	if err != nil {
		return err
	}
	x := eventView{aboutPartner: aboutPartner{partner, "webhooks"}, Event: event, Body: string(body),
		Replay: set && endpoint.StoppedAt.IsZero() && partner.Status != client.Offboarded}
	slices.SortFunc(event.Attempts, func(a, b webhook.Attempt) int { return cmp.Compare(b.Number, a.Number) })
	for _, attempt := range event.Attempts {
		x.Attempts = append(x.Attempts, newAttemptView(attempt))
	}
	return c.write(w, r, "webhook-event", x)
}

func (c *console) askAddress(r *http.Request, say writer, partner client.Client, _ refused) (confirmation, error) {
	endpoint, set, err := c.endpointOf(r, partner.ID)
	return confirmation{
		Names: []any{"Partner", partner.Name}, Back: c.hooksPath(partner),
		Says: []template.HTML{say.HTML("console.webhook.address.says")},
		Fields: []field{{Name: "url", Type: "url", Label: say.HTML("console.webhook.address.label"),
			Hint: say.HTML("console.webhook.address.hint"), Max: webhook.MaxURL, Value: endpoint.URL}},
		Hidden: []named{{"first", strconv.FormatBool(!set)}},
	}, err
}

// setAddress sets the webhook's address. For the first address it shows the new secret, or, after a second click, says where that was shown.
func (c *console) setAddress(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, err := site.ReadForm(w, r, "url", "first")
	if err != nil {
		return err
	}
	secret, err := c.Webhooks.SetEndpoint(r.Context(), partner.ID, form["url"])
	if errors.Is(err, refusal.ErrFields) {
		return refused{form, err}
	}
	if err != nil || secret == "" {
		return outcome(err, c.hooksPath(partner), map[bool]string{true: "webhook_exists", false: "webhook_set"}[form["first"] == "true"])
	}
	return c.writeWebhookSecret(w, r, partner, "console.webhook.address.set", secret)
}

func (c *console) askWebhookSecret(r *http.Request, say writer, endpoint hook, no refused) (confirmation, error) {
	ends, err := c.EffectsOnClient(r.Context(), endpoint.partner)
	says := []template.HTML{say.HTML("console.webhook.secret.says")}
	if !ends.OlderWebhookSecret.IsZero() {
		says = append(says, say.HTML("console.webhook.secret.older_ends", "Until", instant(ends.OlderWebhookSecret)))
	}
	x := confirmation{
		Names: []any{"Partner", endpoint.partner.Name}, Says: says,
		Back:   c.hooksPath(endpoint.partner),
		Hidden: []named{{"older", untilOf(ends.OlderWebhookSecret)}},
	}
	if no.error != nil {
		x.Problem = say.HTML("console.secret.replaced_since")
	}
	return x, err
}

func (c *console) replaceWebhookSecret(w http.ResponseWriter, r *http.Request, hooked hook) error {
	form, err := site.ReadForm(w, r, "older")
	if err != nil {
		return err
	}
	older, err := readUntil(form["older"])
	if err != nil {
		return err
	}
	secret, err := c.Webhooks.RotateSecret(r.Context(), hooked.partner.ID, webhook.SecretOverlap, &older)
	if errors.Is(err, webhook.ErrReplacedSince) {
		return refused{form, err}
	}
	if err != nil {
		return err
	}
	return c.writeWebhookSecret(w, r, hooked.partner, "console.webhook.secret.replaced", secret, // nothing is read that could fail: only this page has it
		c.site.Locale(r).HTML("console.webhook.secret.old_until", "Until", instant(c.Now().Add(webhook.SecretOverlap))))
}

func (c *console) confirmRemoveWebhook(r *http.Request, say writer, endpoint hook, _ refused) (confirmation, error) {
	ends, err := c.EffectsOnClient(r.Context(), endpoint.partner)
	return confirmation{
		Names: []any{"Partner", endpoint.partner.Name},
		Says: []template.HTML{
			say.HTML("console.webhook.remove.says"), say.HTML("console.webhook.remove.waiting", "Number", say.bounded(ends.Waiting)),
		},
		Grave: true, Back: c.hooksPath(endpoint.partner),
	}, err
}

func (c *console) removeWebhook(_ http.ResponseWriter, r *http.Request, endpoint hook) error {
	return outcome(c.Webhooks.RemoveEndpoint(r.Context(), endpoint.partner.ID), c.hooksPath(endpoint.partner), "webhook_removed")
}

// switched is an act, pause or resume.
func (c *console) switched(act string, change func(context.Context, uuid.UUID) (webhook.Endpoint, error)) handlers {
	ask := func(r *http.Request, say writer, endpoint hook, _ refused) (confirmation, error) {
		ends, err := c.EffectsOnClient(r.Context(), endpoint.partner)
		return confirmation{
			Names: []any{"Partner", endpoint.partner.Name},
			Says: []template.HTML{
				say.HTML("console.webhook." + act + ".says"), say.HTML("console.webhook.pause.waiting", "Number", say.bounded(ends.Waiting)),
			},
			Back: c.hooksPath(endpoint.partner),
		}, err
	}
	return previewed(c, "webhook."+act, c.hookOf, ask, site.Confirmed(func(_ http.ResponseWriter, r *http.Request, endpoint hook) error {
		_, err := change(r.Context(), endpoint.partner.ID)
		return outcome(err, c.hooksPath(endpoint.partner), "webhook_"+act+"d")
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

func (c *console) showWebhookTest(w http.ResponseWriter, r *http.Request, endpoint hook) error {
	return c.write(w, r, "webhook-test", webhookTest{
		aboutPartner: aboutPartner{endpoint.partner, "webhooks"}, URL: endpoint.endpoint.URL, Types: eventTypes, Type: eventTypes[0],
	})
}

func (c *console) testWebhook(w http.ResponseWriter, r *http.Request, endpoint hook) error {
	form, err := site.ReadForm(w, r, "type")
	if err != nil {
		return err
	}
	attempt, err := c.Webhooks.SendSample(r.Context(), endpoint.partner.ID, form["type"])
	if err != nil {
		return err
	}
	got := newAttemptView(attempt)
	return c.write(w, r, "webhook-test", webhookTest{
		aboutPartner: aboutPartner{endpoint.partner, "webhooks"}, URL: endpoint.endpoint.URL, Types: eventTypes, Type: form["type"], Got: &got,
	})
}

func (c *console) confirmReplay(r *http.Request, say writer, shown hookEvent, _ refused) (confirmation, error) {
	event, err := c.EventTo(r.Context(), shown.partner.ID)
	says := "console.webhook.replay.says"
	if event == preview.Waits {
		says = "console.webhook.replay.paused"
	}
	return confirmation{
		Names: []any{"Partner", shown.partner.Name},
		Says: []template.HTML{
			say.HTML(says, "ID", shown.MessageID(), "Partner", shown.partner.Name), say.HTML("console.webhook.replay.attempts", "Count", shown.AttemptCount),
		},
		Back: c.eventPath(shown),
	}, err
}

func (c *console) replay(_ http.ResponseWriter, r *http.Request, event hookEvent) error {
	result := "event_replayed"
	switch becomes, err := c.EventTo(r.Context(), event.partner.ID); {
	case err != nil:
		return err
	case becomes == preview.Waits:
		result = "event_waits"
	}
	return outcome(c.Webhooks.Replay(r.Context(), event.ID), c.eventPath(event), result)
}

// replayPart is the number of failed events that one form sends again.
const replayPart = 500

// confirmReplayFailed asks to send failed events again, one part after the other. queued is the size of the part before.
func (c *console) confirmReplayFailed(w http.ResponseWriter, r *http.Request, endpoint hook) error {
	query, err := parseQuery(r, "queued")
	if err != nil {
		return err
	}
	if !endpoint.endpoint.StoppedAt.IsZero() {
		return webhook.ErrStopped
	}
	_, failed, err := c.Webhooks.Waiting(r.Context(), endpoint.partner.ID)
	if err != nil {
		return err
	}
	say := c.writer(r)
	x := replayFailedView{aboutPartner: aboutPartner{endpoint.partner, "webhooks"}, Failed: say.bounded(failed), Next: min(failed, replayPart), More: failed > replayPart}
	if queued, err := strconv.Atoi(query["queued"]); err == nil && queued >= 0 {
		x.Queued, x.Done = say.Number(queued), true
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

func (c *console) replayFailed(_ http.ResponseWriter, r *http.Request, endpoint hook) error {
	queued, err := c.Webhooks.ReplayFailed(r.Context(), endpoint.partner.ID, replayPart)
	if err != nil {
		return err
	}
	return site.Redirect(c.hooksPath(endpoint.partner) + "/replay?queued=" + strconv.Itoa(queued))
}
