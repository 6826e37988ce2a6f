package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/client"
	"connect-svc/internal/web/site"
	"connect-svc/internal/webhook"
)

func (c *console) routeWebhooks(r chi.Router) {
	const hooks = partnersPath + "/{partner}/webhooks"
	r.Get(hooks, c.page(c.listEvents))
	r.Get(hooks+"/address", c.page(c.showAddress))
	r.Post(hooks+"/address", c.page(c.setAddress))
	r.Get(hooks+"/secret", c.page(c.confirmWebhookSecret))
	r.Post(hooks+"/secret", c.page(c.replaceWebhookSecret))
	r.Get(hooks+"/remove", c.page(c.confirmRemoveWebhook))
	r.Post(hooks+"/remove", c.page(c.removeWebhook))
	r.Get(hooks+"/test", c.page(c.showWebhookTest))
	r.Post(hooks+"/test", c.page(c.testWebhook))
	r.Get(hooks+"/replay", c.page(c.confirmReplayFailed))
	r.Post(hooks+"/replay", c.page(c.replayFailed))
	r.Get(hooks+"/{event}", c.page(c.showEvent))
	r.Get(hooks+"/{event}/replay", c.page(c.confirmReplay))
	r.Post(hooks+"/{event}/replay", c.page(c.replay))
}

func hooksPath(partner client.Client) string { return partnerPath(partner.ID) + "/webhooks" }

// eventStates are the filters of the list.
var eventStates = []string{"", string(webhook.Pending), string(webhook.Failed), string(webhook.Delivered)}

// eventList is a partner's webhook, and a page of its events, the latest first.
type eventList struct {
	aboutPartner
	Endpoint webhook.Endpoint
	Set      bool // there is an address
	Waiting  string
	Failed   string
	AnyFail  bool

	State  string // that is looked for
	States []string
	Rows   []webhook.Event
	Pages  pages
}

func (c *console) listEvents(w http.ResponseWriter, r *http.Request) error {
	partner, err := c.partnerOf(r)
	if err != nil {
		return err
	}
	query, err := parseQuery(r, "state")
	if err != nil {
		return err
	}
	if !slices.Contains(eventStates, query["state"]) {
		return site.ErrBadForm
	}
	list := eventList{aboutPartner: aboutPartner{partner, "webhooks"}, State: query["state"], States: eventStates}
	if list.Endpoint, list.Set, err = c.endpointOf(r, partner); err != nil {
		return err
	}
	waiting, failed, err := c.Webhooks.Waiting(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	in := newWriter(c.site.Locale(r))
	list.Waiting, list.Failed, list.AnyFail = in.bounded(waiting), in.bounded(failed), failed > 0
	list.Rows, list.Pages, err = listing(r, "webhook events", func(after webhook.Position, limit int) ([]webhook.Event, error) {
		return c.Webhooks.Events(r.Context(), webhook.Filter{
			ClientID: partner.ID, State: webhook.State(list.State), After: after, Limit: limit, LatestFirst: true,
		})
	}, webhook.Event.Position)
	if err != nil {
		return err
	}
	return c.write(w, r, "partners", "webhooks", list)
}

func (c *console) endpointOf(r *http.Request, partner client.Client) (endpoint webhook.Endpoint, set bool, err error) {
	endpoint, err = c.Webhooks.Endpoint(r.Context(), partner.ID)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return webhook.Endpoint{}, false, nil
	}
	return endpoint, err == nil, err
}

// hooked is the partner that the path names, with its webhook. Errors: webhook.ErrNoEndpoint, client.ErrOffboarded.
func (c *console) hooked(r *http.Request) (client.Client, webhook.Endpoint, error) {
	partner, err := c.changeable(r)
	if err != nil {
		return client.Client{}, webhook.Endpoint{}, err
	}
	endpoint, err := c.Webhooks.Endpoint(r.Context(), partner.ID)
	return partner, endpoint, err
}

// Bounds of what the page of an event shows.
const (
	shownAttempts = 50
	shownAnswer   = 1000 // bytes
)

// eventView is one event with its attempts, the latest first.
type eventView struct {
	aboutPartner
	Event    webhook.Event
	Body     string
	Attempts []attemptView
	Replay   bool // it can be sent again
}

// attemptView is an attempt with what was answered, as text.
type attemptView struct {
	webhook.Attempt
	Answer string
	Cut    bool // the answer was longer
}

func newAttemptView(a webhook.Attempt) attemptView {
	shown := a.Response[:min(len(a.Response), shownAnswer)]
	return attemptView{a, strings.ToValidUTF8(string(shown), "\uFFFD"), len(shown) < len(a.Response)}
}

// eventOf is an event of the partner that the path names.
func (c *console) eventOf(r *http.Request) (client.Client, webhook.Event, error) {
	partner, err := c.partnerOf(r)
	if err != nil {
		return client.Client{}, webhook.Event{}, err
	}
	id, err := pathID(r, "event")
	if err != nil {
		return client.Client{}, webhook.Event{}, err
	}
	event, err := c.Webhooks.Event(r.Context(), id)
	if err == nil && event.ClientID != partner.ID {
		err = webhook.ErrNoEvent
	}
	return partner, event, err
}

func (c *console) showEvent(w http.ResponseWriter, r *http.Request) error {
	partner, event, err := c.eventOf(r)
	if err != nil {
		return err
	}
	endpoint, set, err := c.endpointOf(r, partner)
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
	for _, attempt := range event.Attempts[:min(len(event.Attempts), shownAttempts)] {
		x.Attempts = append(x.Attempts, newAttemptView(attempt))
	}
	return c.write(w, r, "partners", "webhook-event", x)
}
