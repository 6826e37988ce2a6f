package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
)

// partnerForm is the form of a new or existing registration.
type partnerForm struct {
	aboutPartner
	New    bool
	ID     uuid.UUID // of a new partner, so that sending the form twice registers one
	Seen   string    // hash of the registration that the form began with
	Fields []field
	Scopes []check
	// ScopeProblem is set if no scope was chosen.
	ScopeProblem template.HTML
	Stale        bool                // somebody else has changed the registration
	current      client.Registration // as it is meanwhile
	Alike        []client.Client
	AlikeTo      string // the name that was entered
}

// Words returns the keys of the texts of a form that changes a partner.
func (p partnerForm) Words() string {
	if p.IsRequest() {
		return "change.form"
	}
	return "partner.change"
}

// check is a checkbox.
type check struct {
	Name    string
	Checked bool
}

// partnerFields lists the fields of a registration by the domain's names.
var partnerFields = []struct {
	name, kind string
	optional   bool
	value      func(*client.Registration) *string
	number     func(*client.Registration) *int
}{
	{name: "name", kind: "text", value: func(r *client.Registration) *string { return &r.Name }},
	{name: "callback", kind: "url", value: func(r *client.Registration) *string { return &r.CallbackURL }},
	{name: "contact-email", kind: "email", optional: true, value: func(r *client.Registration) *string { return &r.ContactEmail }},
	{name: "homepage", kind: "url", optional: true, value: func(r *client.Registration) *string { return &r.HomepageURL }},
	{name: "privacy-url", kind: "url", optional: true, value: func(r *client.Registration) *string { return &r.PrivacyURL }},
	{name: "terms-url", kind: "url", optional: true, value: func(r *client.Registration) *string { return &r.TermsURL }},
	{name: "requests-per-minute", kind: "number", number: func(r *client.Registration) *int { return &r.Policy.RequestsPerMinute }},
	{name: "burst", kind: "number", number: func(r *client.Registration) *int { return &r.Policy.Burst }},
	{name: "concurrent-reads", kind: "number", number: func(r *client.Registration) *int { return &r.Policy.ConcurrentReads }},
	{name: "webhook-parallel", kind: "number", number: func(r *client.Registration) *int { return &r.WebhookParallel }},
}

// readPartnerForm reads the form. Error: site.ErrBadForm.
func readPartnerForm(w http.ResponseWriter, r *http.Request) (map[string]string, client.Registration, error) {
	var registration client.Registration
	known := append([]string{"id", "seen", "alike"}, scope.All.Names()...)
	for _, f := range partnerFields {
		known = append(known, f.name)
	}
	form, err := site.ReadLongForm(w, r, known...)
	if err != nil {
		return nil, registration, err
	}
	for _, f := range partnerFields {
		if f.value != nil {
			*f.value(&registration) = form[f.name]
		} else if n, err := strconv.Atoi(form[f.name]); err == nil {
			*f.number(&registration) = n
		}
	}
	for _, name := range scope.All.Names() {
		if form[name] != "" {
			named, _ := scope.Parse(name) // known
			registration.Scopes |= named
		}
	}
	// The domain takes 0 for its default; the form requires a number.
	registration.WebhookParallel = cmp.Or(registration.WebhookParallel, -1)
	return form, registration, nil
}

// fill sets the fields of a registration, with the submitted values of a refused form.
func (p *partnerForm) fill(say writer, registration client.Registration, no refused) {
	for _, f := range partnerFields {
		most := client.Limits[f.name]
		input := field{Name: f.name, Type: f.kind, Optional: f.optional, Label: say.HTML("console.partner.field." + f.name),
			Hint: say.HTML("console.partner.hint."+f.name, "Most", say.Number(most)), Value: no.form[f.name], Problem: no.problem(say, f.name)}
		if f.value != nil {
			input.Max = most
		}
		if no.form == nil && f.value != nil {
			input.Value = *f.value(&registration)
		} else if no.form == nil {
			input.Value = strconv.Itoa(*f.number(&registration))
		}
		p.Fields = append(p.Fields, input)
	}
	for _, name := range scope.All.Names() {
		named, _ := scope.Parse(name) // known
		p.Scopes = append(p.Scopes, check{name, registration.Scopes.Contains(named)})
	}
	p.ScopeProblem = no.problem(say, "scope")
}

// seenAs returns a hash of a registration without its logo.
func seenAs(r client.Registration) string {
	r.Logo = brand.Logo{}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", fmt.Sprintf("%#v", r)))
	return hex.EncodeToString(sum[:16])
}

func (c *console) showNewPartner(w http.ResponseWriter, r *http.Request) error {
	form := partnerForm{New: true, ID: uuid.New()}
	form.fill(c.writer(r), client.Registration{
		Scopes: scope.All, Policy: client.DefaultPolicy, WebhookParallel: client.DefaultWebhookParallel,
	}, refused{})
	return c.write(w, r, "partner-form", form)
}

// createPartner registers a partner and shows its secret.
func (c *console) createPartner(w http.ResponseWriter, r *http.Request) error {
	form, registration, err := readPartnerForm(w, r)
	if err != nil {
		return err
	}
	id, err := uuid.Parse(form["id"])
	if err != nil || id.String() != form["id"] || id.Version() != 4 {
		return site.ErrBadForm
	}
	page := partnerForm{New: true, ID: id, AlikeTo: registration.Name}
	if page.Alike, err = c.lookAlikes(r, form["alike"], registration.Name, client.Client{ID: id}); err != nil {
		return err
	}
	if len(page.Alike) > 0 {
		return c.refusePartner(w, r, page, registration, refused{form: form})
	}
	partner, secret, err := c.Clients.Register(r.Context(), id, registration)
	if errors.Is(err, refusal.ErrFields) {
		return c.refusePartner(w, r, page, registration, refused{form, err})
	}
	if errors.Is(err, client.ErrExists) {
		return done(c.partnerPath(id), "partner_exists")
	}
	if err != nil {
		return err
	}
	return c.writeSecret(w, r, partner, "console.secret.created", secret, c.site.Locale(r).HTML("console.secret.hand_over"))
}

// refusePartner shows the form again.
func (c *console) refusePartner(w http.ResponseWriter, r *http.Request, page partnerForm, registration client.Registration, no refused) error {
	page.fill(c.writer(r), registration, no)
	return c.refuse(w, r, "partner-form", page)
}

// lookAlikes returns partners whose names users could mistake for a new name, unless the operator has confirmed the name.
func (c *console) lookAlikes(r *http.Request, confirmed, name string, partner client.Client) ([]client.Client, error) {
	if name == partner.Name || name == confirmed || name == "" {
		return nil, nil
	}
	return c.Clients.LookAlikes(r.Context(), name, partner.ID)
}

func (c *console) showPartnerForm(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	return c.writePartnerForm(w, r, aboutPartner{partner, "overview"}, partner.Registration)
}

func (c *console) writePartnerForm(w http.ResponseWriter, r *http.Request, about aboutPartner, registration client.Registration) error {
	form := partnerForm{aboutPartner: about, Seen: seenAs(registration)}
	form.fill(c.writer(r), registration, refused{})
	return c.write(w, r, "partner-form", form)
}

// changeable returns the partner in the path if it can be changed. Error: refusal.ErrClientOffboarded.
func (c *console) changeable(r *http.Request) (client.Client, error) {
	partner, err := c.partnerOf(r)
	if err == nil && partner.Status == client.Offboarded {
		err = refusal.ErrClientOffboarded
	}
	return partner, err
}

func (c *console) changePartner(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, registration, err := readPartnerForm(w, r)
	if err != nil {
		return err
	}
	page := partnerForm{aboutPartner: aboutPartner{partner, "overview"}, Seen: form["seen"], AlikeTo: registration.Name}
	if page.Alike, err = c.lookAlikes(r, form["alike"], registration.Name, partner); err != nil {
		return err
	}
	if len(page.Alike) > 0 {
		return c.refusePartner(w, r, page, registration, refused{form: form})
	}
	_, err = c.Clients.Update(r.Context(), partner.ID, page.change(registration))
	return c.savedPartner(w, r, page, form, registration, outcome(err, c.partnerPath(partner.ID), "partner_changed"))
}

// change returns the change to a wanted registration. If somebody has changed the registration since the form was shown, it changes nothing
// and keeps the current one for the form, so that nobody overwrites values that they have not seen. It may be as wanted, by a first click.
func (p *partnerForm) change(wanted client.Registration) func(*client.Registration) {
	return func(present *client.Registration) {
		p.current, p.Stale = *present, seenAs(*present) != p.Seen && seenAs(*present) != seenAs(wanted)
		if !p.Stale {
			wanted.Logo = present.Logo
			*present = wanted
		}
	}
}

// savedPartner shows the form again if its change was refused or not made, or else returns the outcome.
func (c *console) savedPartner(
	w http.ResponseWriter, r *http.Request, page partnerForm, form map[string]string, wanted client.Registration, outcome error,
) error {
	if errors.Is(outcome, refusal.ErrFields) {
		return c.refusePartner(w, r, page, wanted, refused{form, outcome})
	}
	if _, changed := errors.AsType[site.Redirect](outcome); changed && page.Stale {
		page.Seen = seenAs(page.current)
		return c.refusePartner(w, r, page, page.current, refused{})
	}
	return outcome
}
