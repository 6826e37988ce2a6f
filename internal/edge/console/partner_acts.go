package console

import (
	"context"
	"errors"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// secretPage shows secrets once.
type secretPage struct {
	aboutPartner
	Heading string
	Says    []template.HTML
	Secrets []named
	Back    string // empty for the partner's page
}

// overlap is how long the previous secret keeps working.
type overlap struct {
	name string
	time time.Duration
}

func (o overlap) seconds() string { return strconv.Itoa(int(o.time.Seconds())) }

var overlaps = []overlap{
	{"none", 0}, {"hour", time.Hour}, {"day", 24 * time.Hour}, {"three_days", 3 * 24 * time.Hour}, {"week", 7 * 24 * time.Hour},
}

func (c *console) askSecret(r *http.Request, say writer, partner client.Client, no refused) (confirmation, error) {
	ends, err := c.EffectsOnClient(r.Context(), partner)
	x := confirmation{
		Title:  say.Text("console.secret.replace_heading", "Partner", partner.Name),
		Says:   []template.HTML{say.HTML("console.secret.replace_says")},
		Action: say.Text("console.secret.replace_act"), Back: c.partnerPath(partner.ID),
		Fields: []field{{Name: "overlap", Label: say.HTML("console.secret.overlap"), Hint: say.HTML("console.secret.overlap_hint"),
			Value: "86400"}},
		Hidden: []named{{"older", untilOf(ends.OlderSecret)}},
	}
	for _, o := range overlaps {
		x.Fields[0].Choices = append(x.Fields[0].Choices, choice{o.seconds(), say.Text("console.secret.for." + o.name)})
	}
	if !ends.OlderSecret.IsZero() {
		x.Says = append(x.Says, say.HTML("console.secret.older_ends", "Until", instant(ends.OlderSecret)))
	}
	if no.error != nil {
		x.Problem = say.HTML("console.secret.replaced_since")
	}
	return x, err
}

// untilOf returns the end of the previous secret for a hidden field, empty if there is none.
func untilOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// readUntil reverses untilOf. Error: site.ErrBadForm.
func readUntil(text string) (at time.Time, err error) {
	if text != "" {
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			err = site.ErrBadForm
		}
	}
	return at, err
}

// replaceSecret replaces the secret, and shows the new one and the end of the previous one.
func (c *console) replaceSecret(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, err := site.ReadForm(w, r, "overlap", "older")
	if err != nil {
		return err
	}
	older, err := readUntil(form["older"])
	chosen := slices.IndexFunc(overlaps, func(o overlap) bool { return o.seconds() == form["overlap"] })
	if err != nil || chosen < 0 {
		return site.ErrBadForm
	}
	rotated, err := c.Clients.RotateSeenSecret(r.Context(), partner.ID, overlaps[chosen].time, older)
	if errors.Is(err, client.ErrReplacedSince) { // often by a second click
		return refused{form, err}
	}
	if err != nil {
		return err
	}
	language := c.site.Locale(r)
	until := language.HTML("console.secret.old_ended")
	if !rotated.OverlapUntil.IsZero() {
		until = language.HTML("console.secret.old_until", "Until", instant(rotated.OverlapUntil))
	}
	return c.writeSecret(w, r, partner, "console.secret.replaced", rotated.Secret, until)
}

// writeSecret shows a partner's client secret once, and other secrets.
func (c *console) writeSecret(w http.ResponseWriter, r *http.Request, partner client.Client, heading, secret string, says template.HTML, others ...named) error {
	language := c.site.Locale(r)
	return c.write(w, r, "secret", secretPage{
		aboutPartner: aboutPartner{partner, "overview"}, Heading: language.Text(heading), Says: []template.HTML{language.HTML("console.secret.once"), says},
		Secrets: append([]named{{language.Text("console.partner.client_id"), partner.ID.String()}, {language.Text("console.secret.client_secret"), secret}}, others...),
	})
}

func (c *console) confirmResume(r *http.Request, say writer, partner client.Client, _ refused) (confirmation, error) {
	return confirmation{
		Names: []any{"Partner", partner.Name}, Says: []template.HTML{say.HTML("console.partner.resume.says")}, Grave: true, Back: c.partnerPath(partner.ID),
	}, nil
}

// resumePartner enables a partner with new secrets, and shows them once.
func (c *console) resumePartner(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	secret, signing, err := c.Resume(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	language := c.site.Locale(r)
	var others []named
	if signing != "" {
		others = []named{{language.Text("console.webhook.secret.name"), signing}}
	}
	return c.writeSecret(w, r, partner, "console.partner.resume.done", secret, language.HTML("console.secret.old_ended"), others...)
}

// writeWebhookSecret shows the secret of a partner's webhook once.
func (c *console) writeWebhookSecret(w http.ResponseWriter, r *http.Request, partner client.Client, heading, secret string, says ...template.HTML) error {
	language := c.site.Locale(r)
	return c.write(w, r, "secret", secretPage{
		aboutPartner: aboutPartner{partner, "webhooks"}, Heading: language.Text(heading),
		Says:    append([]template.HTML{language.HTML("console.secret.once")}, says...),
		Secrets: []named{{language.Text("console.webhook.secret.name"), secret}}, Back: c.hooksPath(partner),
	})
}

// status is an act, disable, enable or revoke, that changes what a partner's credentials can do.
func (c *console) status(act string, grave bool, change func(context.Context, uuid.UUID) error) handlers {
	ask := func(r *http.Request, say writer, partner client.Client, _ refused) (confirmation, error) {
		ends, err := c.EffectsOnClient(r.Context(), partner)
		concerned := ends.Connections.Authorized + map[string]int64{"revoke": ends.Connections.Lapsed}[act]
		says := []template.HTML{
			say.HTML("console.partner." + act + ".says"),
			say.HTML("console.partner."+act+".connections", "Number", say.precisely(concerned, ends.Connections.Precision)),
		}
		if act == "disable" {
			says = append(says, say.pagesEnd(ends))
		}
		return confirmation{Names: []any{"Partner", partner.Name}, Says: says, Grave: grave, Back: c.partnerPath(partner.ID)}, err
	}
	return previewed(c, "partner."+act, c.changeable, ask,
		site.Confirmed(func(_ http.ResponseWriter, r *http.Request, partner client.Client) error {
			return outcome(change(r.Context(), partner.ID), c.partnerPath(partner.ID), "partner_"+act+"d")
		}))
}

func (c *console) askOffboard(r *http.Request, say writer, partner client.Client, no refused) (confirmation, error) {
	ends, err := c.EffectsOnClient(r.Context(), partner)
	name := field{Name: "name", Type: "text", Label: say.HTML("console.partner.offboard.name"),
		Hint: say.HTML("console.partner.offboard.name_hint", "Name", partner.Name), Max: 100}
	if no.error != nil {
		name.Problem = say.HTML("console.partner.offboard.wrong")
	}
	connections := ends.Connections
	return confirmation{
		Names: []any{"Partner", partner.Name},
		Says: []template.HTML{
			say.HTML("console.partner.offboard.says"),
			say.HTML("console.partner.offboard.connections", "Number", say.precisely(connections.Authorized+connections.Lapsed+connections.Revoked, connections.Precision)),
			say.HTML("console.partner.offboard.webhooks", "Number", say.bounded(ends.Waiting)),
			say.pagesEnd(ends),
		},
		Grave: true, Back: c.partnerPath(partner.ID), Fields: []field{name},
	}, err
}

// bounded writes a count of events.
func (say writer) bounded(n int) string {
	if n > webhook.CountBound {
		return say.precisely(webhook.CountBound, usage.AtLeast)
	}
	return say.Number(n)
}

// offboardPartner ends a partner for good. If time runs out before all connections have ended, the service ends the rest.
func (c *console) offboardPartner(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, err := site.ReadForm(w, r, "name")
	if err != nil {
		return err
	}
	seen := func(name string) string { return norm.NFC.String(strings.Join(strings.Fields(name), " ")) } // as a browser shows it
	if seen(form["name"]) != seen(partner.Name) {
		return refused{form, errors.New("another name")}
	}
	if _, err := c.Clients.Offboard(r.Context(), partner.ID); err != nil {
		ctx, cancel := work.Within(r.Context(), work.CallerOf(r.Context()), c.Limits.Act)
		defer cancel()
		if current, _ := c.Clients.Get(ctx, partner.ID); current.Status != client.Offboarded || errors.Is(err, refusal.ErrClientOffboarded) {
			return err
		}
	}
	return done(c.partnerPath(partner.ID), "partner_offboarded")
}

// logoForm is the page for a partner's logo.
type logoForm struct {
	aboutPartner
	Problem template.HTML // with the file
}

// takesLogo is a form with a logo. take makes or requests the change.
func (c *console) takesLogo(tab string, take func(*http.Request, client.Client, brand.Logo) error) handlers {
	show := func(w http.ResponseWriter, r *http.Request, partner client.Client) error {
		return c.write(w, r, "logo", logoForm{aboutPartner: aboutPartner{partner, tab}})
	}
	return given(c.changeable, show, func(w http.ResponseWriter, r *http.Request, partner client.Client) error {
		file, err := readFile(w, r, "logo", brand.MaxLogo)
		if err != nil {
			return err
		}
		logo, err := brand.ReadLogo(file)
		if err != nil {
			problem := c.site.Locale(r).HTML("console.partner.logo.wrong", "Problem", err.Error())
			return c.refuse(w, r, "logo", logoForm{aboutPartner{partner, tab}, problem})
		}
		return take(r, partner, logo)
	})
}

func (c *console) removeLogo(_ http.ResponseWriter, r *http.Request, partner client.Client) error {
	return c.replaceLogo(r, partner, brand.Logo{}, "logo_removed")
}

func (c *console) replaceLogo(r *http.Request, partner client.Client, logo brand.Logo, result string) error {
	_, err := c.Clients.Update(r.Context(), partner.ID, func(registration *client.Registration) { registration.Logo = logo })
	return outcome(err, c.partnerPath(partner.ID), result)
}

// readFile reads a form that has one file and nothing else. It reads at most max+1 bytes of the file. Error: site.ErrBadForm.
func readFile(w http.ResponseWriter, r *http.Request, name string, max int64) ([]byte, error) {
	const around = 4 << 10 // of the form beside its file
	r.Body = http.MaxBytesReader(w, r.Body, max+1+around)
	reader, err := r.MultipartReader()
	if err != nil {
		return nil, site.ErrBadForm
	}
	part, err := reader.NextPart()
	if err != nil || part.FormName() != name {
		return nil, site.ErrBadForm
	}
	file, err := io.ReadAll(io.LimitReader(part, max+1))
	if err != nil {
		return nil, site.ErrBadForm
	}
	if int64(len(file)) > max {
		return file, nil
	}
	if _, err := reader.NextPart(); !errors.Is(err, io.EOF) {
		return nil, site.ErrBadForm
	}
	return file, nil
}

// serveLogo serves the logo of a partner, or the one that it asks for.
func (c *console) serveLogo(w http.ResponseWriter, r *http.Request) error {
	id, err := site.PathID(r, "partner")
	if err != nil {
		return err
	}
	logo, err := c.Clients.Logo(r.Context(), id, chi.URLParam(r, "file"))
	if errors.Is(err, refusal.ErrClientNotFound) {
		var wanted client.Registration
		wanted, err = c.wanted(r, client.Client{ID: id})
		if logo = wanted.Logo; err == nil && (logo.Name == "" || logo.Name != chi.URLParam(r, "file")) {
			err = site.ErrNotFound
		}
	}
	if err != nil {
		return err
	}
	site.Unchanging(w, logo.MediaType())
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	w.Header().Set("Content-Type", logo.MediaType())
	_, _ = w.Write(logo.Content) // fails only if the browser has gone
	return nil
}
