package console

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// PortalPreviewFiles is the path of the files of the portal's [ConsentPage].
const PortalPreviewFiles = portal.Path + "/consent-page/"

// portalCookie holds the partner and the key of an engineer's session. Browsers accept its prefix only for this host and over TLS.
const portalCookie = "__Host-connect-partner"

// NewPortal returns the handler of [portal.Path] and everything below it: the console's pages about one partner, for the engineers of that
// partner. Mount it behind telemetry.Requests. It needs Portal, Clients, OAuth, Webhooks, Usage, Audit, Finder, Consent and Now of the
// configuration. It fails only if the embedded files are inconsistent, or a route has no right.
func NewPortal(config Config) (http.Handler, error) {
	c, err := newConsole(config, "", portal.Path+"/static/")
	if err != nil {
		return nil, fmt.Errorf("portal: %w", err)
	}
	c.identify = func(r *http.Request) (principal, error) { // the engineer whose session the browser holds
		session, err := c.ownSession(r)
		return principal{Name: session.Actor(), ReadOnly: session.ReadOnly, Engineer: true, Partner: session.ClientID, changes: c.Changes}, err
	}
	return c.router(c.routes(), func(r *http.Request) work.Caller {
		return work.Caller{Kind: work.Engineers, Name: c.TrustedProxies.Of(r).String()}
	}, middleware.SetHeader("Strict-Transport-Security", "max-age=63072000"))
}

// portalSession returns the session whose key the browser holds, of any partner. Error: portal.ErrNoSession.
func (c *console) portalSession(r *http.Request) (portal.Session, error) {
	cookie, err := r.Cookie(portalCookie)
	if err != nil {
		return portal.Session{}, portal.ErrNoSession
	}
	text, key, _ := strings.Cut(cookie.Value, ".")
	partner, _ := uuid.Parse(text) // one that is malformed is nobody's
	return c.Portal.Session(r.Context(), partner, key)
}

// ownSession is portalSession of the partner in the path.
func (c *console) ownSession(r *http.Request) (portal.Session, error) {
	session, err := c.portalSession(r)
	if partner, wrong := site.PathID(r, "partner"); wrong != nil || err == nil && session.ClientID != partner {
		return portal.Session{}, cmp.Or(wrong, portal.ErrNoSession)
	}
	return session, err
}

// showOutside is for people without a session. It leads others to their pages.
func (c *console) showOutside(w http.ResponseWriter, r *http.Request) error {
	if !r.URL.Query().Has("signed-out") {
		session, err := c.portalSession(r)
		return cmp.Or[error](err, site.Redirect(c.partnerPath(session.ClientID)))
	}
	c.site.Write(w, r, http.StatusOK, "failure", view{X: failureView{Name: "signed_out"}})
	return nil
}

// askOpen asks whether to open a link. It changes nothing, because programs that look at messages open links, too.
func (c *console) askOpen(w http.ResponseWriter, r *http.Request) error {
	id, err := site.PathID(r, "partner")
	if err != nil {
		return err
	}
	link, err := c.Portal.Link(r.Context(), id, chi.URLParam(r, "link")) // before the partner: a stranger learns nothing about partners
	if err != nil {
		return err
	}
	partner, err := c.Clients.Get(r.Context(), id)
	if err != nil {
		return err
	}
	say := c.writer(r)
	says := []template.HTML{say.HTML("console.portal.open.says", "Name", link.Name)}
	if link.ReadOnly {
		says = append(says, say.HTML("console.portal.open.read_only"))
	}
	return c.write(w, r, "confirm", confirmation{
		Title: say.Text("console.portal.open.heading", "Partner", partner.Name), Says: says, Action: say.Text("console.portal.open.act"),
		Hidden: []named{{"opening", rand.Text()}},
	})
}

// open makes a session of a link, in this browser, whose session before it ends.
func (c *console) open(w http.ResponseWriter, r *http.Request) error {
	partner, unknown := site.PathID(r, "partner")
	form, err := site.ReadForm(w, r, "opening")
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	former, none := c.portalSession(r)
	session, key, err := c.Portal.Open(r.Context(), partner, chi.URLParam(r, "link"), form["opening"])
	if err != nil {
		return err
	}
	telemetry.EventOf(r.Context()).Operator = session.Actor()
	setPortalCookie(w, partner, key, portal.SessionLifetime)
	if none == nil && former.ID != session.ID { // nobody has its key any more
		if err := c.Portal.SignOut(r.Context(), former); err != nil && !errors.Is(err, portal.ErrNoSession) {
			return err
		}
	}
	return site.Redirect(c.partnerPath(partner))
}

// leave ends the session, if there is one. From an old page it may be of another partner.
func (c *console) leave(w http.ResponseWriter, r *http.Request) error {
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	session, err := c.portalSession(r)
	if err == nil {
		err = c.Portal.SignOut(r.Context(), session)
	}
	setPortalCookie(w, uuid.Nil, "", -time.Second)
	if err != nil && !errors.Is(err, portal.ErrNoSession) { // the latter often by a first click
		return err
	}
	return site.Redirect(portal.Path + "?signed-out")
}

// setPortalCookie sets the cookie. It is SameSite=Strict, so that no other site can open the portal's pages or send its forms.
func setPortalCookie(w http.ResponseWriter, partner uuid.UUID, key string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: portalCookie, Value: partner.String() + "." + key, Path: "/", MaxAge: int(lifetime.Seconds()),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// sessionList has the links to a partner's pages, and the sessions there.
type sessionList struct {
	aboutPartner
	On   bool // the public listener serves them
	Rows []portal.Session
}

func (c *console) listSessions(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	rows, err := c.Portal.Sessions(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	return c.write(w, r, "portal", sessionList{aboutPartner{partner, "portal"}, c.PortalOn, rows})
}

// validities are how long a link can be opened.
var validities = []overlap{{"hour", time.Hour}, {"day", portal.MaxValid}}

func (c *console) askLink(_ *http.Request, say writer, partner client.Client, no refused) (confirmation, error) {
	x := confirmation{
		Names: []any{"Partner", partner.Name},
		Says:  []template.HTML{say.HTML("console.portal.link.says")},
		Back:  c.partnerPath(partner.ID) + "/portal",
		Fields: []field{
			{Name: "name", Type: "text", Label: say.HTML("console.portal.link.name"), Hint: say.HTML("console.portal.link.name_hint"), Max: 64, Value: portal.DefaultName},
			{Name: "rights", Label: say.HTML("console.portal.link.rights"), Value: "change", Choices: []choice{
				{"change", say.Text("console.portal.link.may_change")}, {"read", say.Text("console.portal.link.may_read")},
			}},
			{Name: "valid", Label: say.HTML("console.portal.link.valid")},
		},
	}
	for _, v := range validities {
		x.Fields[2].Value = v.seconds()
		x.Fields[2].Choices = append(x.Fields[2].Choices, choice{v.seconds(), say.Text("console.secret.for." + v.name)})
	}
	return x, nil
}

// createLink makes a link and shows it once.
func (c *console) createLink(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	form, err := site.ReadForm(w, r, "name", "rights", "valid")
	if err != nil {
		return err
	}
	link := portal.NewLink{ClientID: partner.ID, Name: form["name"], ReadOnly: form["rights"] == "read"}
	for _, v := range validities {
		if v.seconds() == form["valid"] {
			link.Valid = v.time
		}
	}
	if link.Valid == 0 || !link.ReadOnly && form["rights"] != "change" {
		return site.ErrBadForm
	}
	made, secret, err := c.Portal.CreateLink(r.Context(), link)
	if errors.Is(err, refusal.ErrFields) {
		return refused{form, err}
	}
	if err != nil {
		return err
	}
	language := c.site.Locale(r)
	return c.write(w, r, "secret", secretPage{
		aboutPartner: aboutPartner{partner, "portal"}, Heading: language.Text("console.portal.link.made"),
		Says:    []template.HTML{language.HTML("console.portal.link.once", "Until", instant(made.ExpiresAt))},
		Secrets: []named{{language.Text("console.portal.link.address"), c.BaseURL + portal.LinkPath(partner.ID, secret)}},
		Back:    c.partnerPath(partner.ID) + "/portal",
	})
}

func (c *console) confirmEndSessions(r *http.Request, say writer, partner client.Client, _ refused) (confirmation, error) {
	ends, err := c.EffectsOnClient(r.Context(), partner)
	return confirmation{
		Names: []any{"Partner", partner.Name}, Says: []template.HTML{say.HTML("console.portal.end_all.says"), say.pagesEnd(ends)},
		Grave: true, Back: c.partnerPath(partner.ID) + "/portal",
	}, err
}

// pagesEnd says what ends of a partner's own pages.
func (say writer) pagesEnd(ends preview.Client) template.HTML {
	return say.HTML("console.portal.end_all.ends", "Links", say.Number(ends.Links), "Sessions", say.Number(ends.Sessions))
}

func (c *console) endSessions(_ http.ResponseWriter, r *http.Request, partner client.Client) error {
	return outcome(c.Portal.EndAll(r.Context(), partner.ID), c.partnerPath(partner.ID)+"/portal", "sessions_ended")
}

// sessionOf returns the link or session in the path. If it has ended, often by a first click, it redirects to the list.
func (c *console) sessionOf(r *http.Request) (portal.Session, error) {
	partner, err := c.partnerOf(r)
	if err != nil {
		return portal.Session{}, err
	}
	id, err := site.PathID(r, "session")
	if err != nil {
		return portal.Session{}, err
	}
	all, err := c.Portal.Sessions(r.Context(), partner.ID)
	if i := slices.IndexFunc(all, func(session portal.Session) bool { return session.ID == id }); i >= 0 {
		return all[i], nil
	}
	return portal.Session{}, outcome(err, c.partnerPath(partner.ID)+"/portal", "session_ended")
}

func (c *console) confirmEndSession(_ *http.Request, say writer, session portal.Session, _ refused) (confirmation, error) {
	return confirmation{
		Names: []any{"Name", session.Name}, Says: []template.HTML{say.HTML("console.portal.end.says")},
		Grave: true, Back: c.partnerPath(session.ClientID) + "/portal",
	}, nil
}

func (c *console) endSession(_ http.ResponseWriter, r *http.Request, session portal.Session) error {
	err := c.Portal.End(r.Context(), session.ClientID, session.ID)
	if errors.Is(err, portal.ErrNoSession) { // since it was found
		err = nil
	}
	return outcome(err, c.partnerPath(session.ClientID)+"/portal", "session_ended")
}
