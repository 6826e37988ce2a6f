package console

import (
	"errors"
	"html/template"
	"net/http"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
)

const changesPath = Path + "/changes"

func (c *console) changePath(partner uuid.UUID) string { return c.partnerPath(partner) + "/changes" }

// lastChange returns a partner's last request, nil if there is none.
func (c *console) lastChange(r *http.Request, partner uuid.UUID) (*client.ChangeRequest, error) {
	change, err := c.Clients.ChangeRequest(r.Context(), partner)
	if errors.Is(err, client.ErrNoChangeRequest) {
		return nil, nil
	}
	return &change, err
}

// changeView is a partner's last request. Of an open one it has what it would change now.
type changeView struct {
	aboutPartner
	Request *client.ChangeRequest // nil if there is none
	Seen    string                // hash of the registration that would change
	Changes []client.FieldChange
	Alike   []client.Client // for operators: partners whose names users could mistake for the one that is asked for
}

// Open reports whether the request waits for an answer.
func (v changeView) Open() bool { return v.Request != nil && v.Request.State == client.ChangeOpen }

// Of returns a value of a field of the partner, for its template.
func (v changeView) Of(field, value string) any {
	return struct {
		Partner      uuid.UUID
		Field, Value string
	}{v.Partner.ID, field, value}
}

func (c *console) showChange(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	x := changeView{aboutPartner: aboutPartner{partner, "changes"}, Seen: seenAs(partner.Registration)}
	var err error
	if x.Request, err = c.lastChange(r, partner.ID); err != nil {
		return err
	}
	if x.Open() {
		wanted, err := x.Request.Wanted(partner.Registration)
		if err == nil && !principalOf(r).Engineer {
			x.Alike, err = c.lookAlikes(r, "", wanted.Name, partner)
		}
		if err != nil {
			return err
		}
		x.Changes = client.Compare(partner.Registration, wanted)
	}
	return c.write(w, r, "changes", x)
}

// wanted returns the registration as the open request would change it, or as it is.
func (c *console) wanted(r *http.Request, partner client.Client) (client.Registration, error) {
	last, err := c.lastChange(r, partner.ID)
	if err != nil || last == nil || last.State != client.ChangeOpen {
		return partner.Registration, err
	}
	return last.Wanted(partner.Registration)
}

func (c *console) showRequestForm(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	wanted, err := c.wanted(r, partner)
	if err != nil {
		return err
	}
	return c.writePartnerForm(w, r, aboutPartner{partner, "changes"}, wanted)
}

func (c *console) requestChange(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, registration, err := readPartnerForm(w, r)
	if err != nil {
		return err
	}
	page := partnerForm{aboutPartner: aboutPartner{partner, "changes"}, Seen: form["seen"]}
	result, err := c.request(r, partner, page.change(registration))
	return c.savedPartner(w, r, page, form, registration, outcome(err, c.changePath(partner.ID), result))
}

func (c *console) requestLogo(r *http.Request, partner client.Client, logo brand.Logo) error {
	result, err := c.request(r, partner, func(wanted *client.Registration) { wanted.Logo = logo })
	return outcome(err, c.changePath(partner.ID), result)
}

// request requests a change. what is the text of what that has done.
func (c *console) request(r *http.Request, partner client.Client, change func(*client.Registration)) (result string, err error) {
	asked, err := c.Clients.RequestChange(r.Context(), partner.ID, change)
	if !asked {
		return "change_same", err
	}
	return "change_requested", err
}

// openChange is a partner with its open request.
type openChange struct {
	partner client.Client
	request client.ChangeRequest
}

// openChangeOf returns the partner in the path with its request, which is open and the one that the page has shown, beside the registration as it
// is. If somebody has changed that since, it redirects to the page. Error: client.ErrNoChangeRequest.
func (c *console) openChangeOf(r *http.Request) (change openChange, err error) {
	if change.partner, err = c.changeable(r); err == nil {
		change.request, err = c.Clients.ChangeRequest(r.Context(), change.partner.ID)
	}
	switch seen := r.URL.Query().Get("seen"); {
	case err != nil:
	case change.request.State != client.ChangeOpen || r.URL.Query().Get("request") != change.request.ID.String():
		err = client.ErrNoChangeRequest
	case seen != "" && seen != seenAs(change.partner.Registration):
		err = done(c.changePath(change.partner.ID), "change_moved")
	}
	return change, err
}

// askChange asks for an act on an open request.
func (c *console) askChange(act string) asking[openChange] {
	return func(_ *http.Request, say writer, change openChange, _ refused) (confirmation, error) {
		x := confirmation{
			Names: []any{"Partner", change.partner.Name},
			Says:  []template.HTML{say.HTML("console.change." + act + ".says")},
			Back:  c.changePath(change.partner.ID),
		}
		if act == "refuse" {
			x.Fields = []field{{Name: "answer", Type: "textarea", Label: say.HTML("console.change.refuse.answer"),
				Hint: say.HTML("console.change.refuse.answer_hint"), Max: client.MaxAnswer}}
		}
		return x, nil
	}
}

func (c *console) withdrawChange(_ http.ResponseWriter, r *http.Request, change openChange) error {
	return outcome(c.Clients.WithdrawChange(r.Context(), change.partner.ID, change.request.ID), c.changePath(change.partner.ID), "change_withdrawn")
}

func (c *console) approveChange(_ http.ResponseWriter, r *http.Request, change openChange) error {
	answered, err := c.Clients.ApproveChange(r.Context(), change.partner.ID, change.request.ID)
	result := "change_approved"
	if answered.State == client.ChangeRefused {
		result = "change_stale"
	}
	return outcome(err, c.changePath(change.partner.ID), result)
}

func (c *console) refuseChange(w http.ResponseWriter, r *http.Request, change openChange) error {
	form, err := site.ReadForm(w, r, "answer")
	if err != nil {
		return err
	}
	_, err = c.Clients.RefuseChange(r.Context(), change.partner.ID, change.request.ID, form["answer"])
	if errors.Is(err, refusal.ErrFields) {
		return refused{form, err}
	}
	return outcome(err, c.changePath(change.partner.ID), "change_refused")
}

// changeList is a page of the requests of all partners that are open, oldest first.
type changeList struct {
	Rows  []client.OpenChange
	Pages pages
}

func (c *console) listChanges(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	rows, pages, err := listing(r, firstCursor, "changes", func(after page.Key, limit int) ([]client.OpenChange, error) {
		return c.Clients.OpenChanges(r.Context(), after, limit)
	}, client.OpenChange.Key)
	if err != nil {
		return err
	}
	return c.write(w, r, "change-list", changeList{rows, pages})
}
