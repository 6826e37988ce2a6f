package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
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

	State  string // the filter
	States []string
	Rows   []webhook.Event
	Pages  pages
}

func (c *console) listEvents(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "state")
	if err != nil {
		return err
	}
	if !slices.Contains(eventStates, query["state"]) {
		return site.ErrBadForm
	}
	list := eventList{aboutPartner: aboutPartner{partner, "webhooks"}, State: query["state"], States: eventStates}
	if list.Endpoint, list.Set, err = c.endpointOf(r, partner.ID); err != nil {
		return err
	}
	waiting, failed, err := c.Webhooks.Waiting(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	in := c.writer(r)
	list.Waiting, list.Failed, list.AnyFail = in.bounded(waiting), in.bounded(failed), failed > 0
	list.Rows, list.Pages, err = listing(r, firstCursor, "webhook events", func(after page.Key, limit int) ([]webhook.Event, error) {
		return c.Webhooks.Events(r.Context(), webhook.Filter{
			ClientID: partner.ID, State: webhook.State(list.State), After: after, Limit: limit, LatestFirst: true,
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
func (c *console) hookOf(r *http.Request) (one hook, err error) {
	if one.partner, err = c.changeable(r); err != nil {
		return one, err
	}
	one.endpoint, err = c.Webhooks.Endpoint(r.Context(), one.partner.ID)
	return one, err
}

// Limits of the page of an event.
const (
	shownAttempts = 50
	shownAnswer   = 1000 // bytes
)

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

func (c *console) eventPath(one hookEvent) string {
	return c.hooksPath(one.partner) + "/" + one.ID.String()
}

// eventOf returns the event in the path.
func (c *console) eventOf(r *http.Request) (one hookEvent, err error) {
	if one.partner, err = c.partnerOf(r); err != nil {
		return one, err
	}
	id, err := site.PathID(r, "event")
	if err != nil {
		return one, err
	}
	one.Event, err = c.Webhooks.Event(r.Context(), id)
	if err == nil && one.ClientID != one.partner.ID {
		err = webhook.ErrNoEvent
	}
	return one, err
}

func (c *console) showEvent(w http.ResponseWriter, r *http.Request, one hookEvent) error {
	partner, event := one.partner, one.Event
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
	for _, attempt := range event.Attempts[:min(len(event.Attempts), shownAttempts)] {
		x.Attempts = append(x.Attempts, newAttemptView(attempt))
	}
	return c.write(w, r, "webhook-event", x)
}
