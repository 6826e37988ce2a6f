package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// route is a page, an act, or both: a page that asks for an act, and the act. Those about a partner begin with its id, and are in the
// console and in the portal.
type route struct {
	pattern string
	who     right
	takes   takes // the act
	handlers
}

// handlers of GET and of POST, either of which may be nil.
type handlers struct{ get, post site.Handler }

// takes says how long an act may take.
type takes uint8

const (
	short takes = iota + 1
	long        // it ends many connections, or calls a partner's server
)

// longTime is what a long act has at least.
const longTime = 30 * time.Second

// routes is the whole table. An act names its texts, its subject, what shows what it will do, and what does it.
func (c *console) routes() []route {
	const (
		user       = usersPath + "/{user}"
		connection = user + "/connections/{client}"
		partner    = "{partner}"
		hooks      = partner + "/webhooks"
		changes    = partner + "/changes"
	)
	ofPortal := []route{
		{portal.Path, anyone, short, handlers{get: c.showOutside}},
		{portal.Path + "/static/{name}", anyone, short, handlers{get: c.site.ServeFile}},
		{PortalPreviewFiles + "{name}", anyone, short, handlers{get: func(w http.ResponseWriter, r *http.Request) error { return c.Consent.ServeFile(w, r) }}},
		{partner + "/open/{link}", anyone, short, handlers{c.askOpen, c.open}},
		{partner + "/sign-out", anyone, short, handlers{post: c.leave}},
	}
	ofConsole := []route{
		{Path, operator, short, handlers{get: c.showHome}},
		{Path + "/", operator, short, handlers{get: site.FailWith(site.Redirect(Path))}},
		{Path + "/static/{name}", anyone, short, handlers{get: c.site.ServeFile}},
		{Path + "/sign-in", anyone, short, handlers{c.showSignIn, c.signIn}},
		{Path + "/sign-out", anyone, short, handlers{post: c.signOut}},
		{Path + "/zone", anyone, short, handlers{post: c.setZone}},
		{PreviewFiles + "{name}", operator, short, handlers{get: func(w http.ResponseWriter, r *http.Request) error { return c.Consent.ServeFile(w, r) }}},
		{findPath, operator, short, handlers{get: c.find}},
		{auditPath, operator, short, handlers{get: c.listAudit}},
		{auditPath + ".csv", operator, short, handlers{get: c.writeAudit}},
		{servicePath, operator, short, handlers{get: c.showService}},
		{servicePath + "/dismiss", operator, short, handlers{post: c.dismissServer}},
		{changesPath, operator, short, handlers{get: c.listChanges}},
		{partnersPath, operator, short, handlers{get: c.listPartners}},
		{partnersPath + "/new", operator, short, handlers{c.showNewPartner, c.createPartner}},

		{usersPath, operator, short, handlers{get: c.listUsers}},
		{user, operator, short, given(c.userOf, c.showUser, nil)},
		{user + "/export", operator, short, given(c.userOf, c.exportUser, nil)},
		{user + "/change", operator, short, previewed(c, "user.change", c.userOf, c.askChangeUser, c.changeUser)},
		{user + "/lift-limits", operator, short, previewed(c, "sign_ins.lift", c.userOf, c.confirmLiftLimits, site.Confirmed(c.liftLimits))},
		{user + "/delete", operator, short, previewed(c, "user.delete", c.userOf, c.confirmDeleteUser, site.Confirmed(c.deleteUser))},
		{user + "/adjust", operator, short, previewed(c, "adjust", c.userOf, c.askAdjustment, c.adjust)},
		{user + "/corrections/{dataset}/{correction}/remove", operator, short, previewed(c, "adjust.remove", c.userOf, c.confirmRemoveAdjustment, site.Confirmed(c.removeAdjustment))},
		{connection, operator, short, given(c.connectionOf, c.showConnection, nil)},
		{connection + "/disconnect", operator, short, previewed(c, "disconnect", c.connectionOf, c.confirmDisconnect, site.Confirmed(c.disconnect))},
	}
	ofPartner := []route{
		{partner, engineers, short, given(c.partnerOf, c.showPartner, nil)},
		{partner + "/usage", engineers, short, given(c.partnerOf, c.showUsage, nil)},
		{partner + "/refused", engineers, short, given(c.partnerOf, c.listRefused, nil)},
		{partner + "/connections", engineers, short, given(c.partnerOf, c.showConnections, nil)},
		{partner + "/connections.csv", engineers, short, given(c.partnerOf, c.writeEnds, nil)},
		{partner + "/consent", engineers, short, given(c.partnerOf, c.choosePreview, nil)},
		{partner + "/consent/{language}", engineers, short, given(c.partnerOf, c.showPreview, nil)},
		{partner + "/log", engineers, short, given(c.partnerOf, c.showLog, nil)},
		{partner + "/logo/{file}", engineers, short, handlers{get: c.serveLogo}},

		{hooks, engineers, short, given(c.partnerOf, c.listEvents, nil)},
		{hooks + "/test", engineers, long, given(c.hookOf, c.showWebhookTest, c.testWebhook)},
		{hooks + "/replay", engineers, long, given(c.hookOf, c.confirmReplayFailed, site.Confirmed(c.replayFailed))},
		{hooks + "/{event}", engineers, short, given(c.eventOf, c.showEvent, nil)},
		{hooks + "/{event}/replay", engineers, short, previewed(c, "webhook.replay", c.eventOf, c.confirmReplay, site.Confirmed(c.replay))},
		{hooks + "/address", webhooks, short, previewed(c, "webhook.address", c.changeable, c.askAddress, c.setAddress)},
		{hooks + "/pause", webhooks, short, c.switched("pause", c.Webhooks.Pause)},
		{hooks + "/resume", webhooks, short, c.switched("resume", c.Webhooks.Resume)},
		{hooks + "/remove", webhooks, short, previewed(c, "webhook.remove", c.hookOf, c.confirmRemoveWebhook, site.Confirmed(c.removeWebhook))},
		{hooks + "/secret", secrets, short, previewed(c, "webhook.secret", c.hookOf, c.askWebhookSecret, c.replaceWebhookSecret)},
		{partner + "/secret", secrets, short, previewed(c, "secret", c.changeable, c.askSecret, c.replaceSecret)},

		{changes, engineers, short, given(c.partnerOf, c.showChange, nil)},
		{changes + "/request", engineers, short, given(c.changeable, c.showRequestForm, c.requestChange)},
		{changes + "/logo", engineers, short, c.takesLogo("changes", c.requestLogo)},
		{changes + "/withdraw", engineers, short, previewed(c, "change.withdraw", c.openChangeOf, c.askChange("withdraw"), site.Confirmed(c.withdrawChange))},
		{changes + "/approve", operator, short, previewed(c, "change.approve", c.openChangeOf, c.askChange("approve"), site.Confirmed(c.approveChange))},
		{changes + "/refuse", operator, short, previewed(c, "change.refuse", c.openChangeOf, c.askChange("refuse"), c.refuseChange)},

		{partner + "/change", operator, short, given(c.changeable, c.showPartnerForm, c.changePartner)},
		{partner + "/logo", operator, short, c.takesLogo("overview", func(r *http.Request, partner client.Client, logo brand.Logo) error {
			return c.replaceLogo(r, partner, logo, "logo_set")
		})},
		{partner + "/logo/remove", operator, short, handlers{post: site.Given(c.changeable, site.Confirmed(c.removeLogo))}},
		{partner + "/disable", operator, short, c.status("disable", true, c.Clients.Disable)},
		{partner + "/enable", operator, short, c.status("enable", false, c.Clients.Enable)},
		{partner + "/resume", operator, short, previewed(c, "partner.resume", c.changeable, c.confirmResume, c.resumePartner)},
		{partner + "/revoke", operator, long, c.status("revoke", true, func(ctx context.Context, id uuid.UUID) error {
			_, err := c.OAuth.RevokeTokensOfClient(ctx, id)
			return err
		})},
		{partner + "/offboard", operator, long, previewed(c, "partner.offboard", c.changeable, c.askOffboard, c.offboardPartner)},
		{partner + "/portal", operator, short, given(c.partnerOf, c.listSessions, nil)},
		{partner + "/portal/link", operator, short, previewed(c, "portal.link", c.changeable, c.askLink, c.createLink)},
		{partner + "/portal/end", operator, short, previewed(c, "portal.end_all", c.changeable, c.confirmEndSessions, site.Confirmed(c.endSessions))},
		{partner + "/portal/{session}/end", operator, short, previewed(c, "portal.end", c.sessionOf, c.confirmEndSession, site.Confirmed(c.endSession))},
	}
	if c.base == Path {
		return append(ofConsole, ofPartner...)
	}
	return append(ofPortal, ofPartner...)
}

// given has the handlers of a page and of an act on the same subject. The act may be nil.
func given[T any](subject func(*http.Request) (T, error), show, act site.About[T]) handlers {
	h := handlers{get: site.Given(subject, show)}
	if act != nil {
		h.post = site.Given(subject, act)
	}
	return h
}

// router serves the table. A route without a right or without a time is an error. Of the portal it leaves out the operators' routes.
func (c *console) router(table []route, caller func(*http.Request) work.Caller, headers ...func(http.Handler) http.Handler) (http.Handler, error) {
	router := chi.NewRouter()
	router.Use(append(headers, site.Headers, site.Named, c.ownForms)...)
	router.NotFound(c.page(site.FailWith(site.ErrNotFound)))
	router.MethodNotAllowed(c.page(site.FailWith(site.ErrNotFound)))
	c.rights = map[string]right{}
	for _, route := range table {
		if route.who == 0 || route.takes == 0 {
			return nil, fmt.Errorf("the route %s has no right or no time", route.pattern)
		}
		if c.rights[route.pattern] != 0 {
			return nil, errors.New("the route " + route.pattern + " is there twice")
		}
		c.rights[route.pattern] = route.who
		if route.who == operator && c.base != Path {
			continue
		}
		path := route.pattern
		if strings.HasPrefix(path, "{partner}") {
			path = c.base + "/partners/" + path
		}
		add := func(method string, limit time.Duration, handle site.Handler) {
			if handle == nil {
				return
			}
			var handler http.Handler = c.page(handle)
			if route.who != anyone {
				handler = c.admitting(route.who, handler)
			}
			router.Method(method, path, site.Timed(caller, limit)(handler))
		}
		limit := c.Limits.Act
		if route.takes == long {
			limit = max(longTime, c.Limits.Batch)
		}
		add(http.MethodGet, c.Limits.Act, route.get)
		add(http.MethodPost, limit, route.post)
	}
	return router, nil
}

// right is who may ask for a page, or for an act. For reading alone there are only pages.
type right uint8

const (
	anyone    right = iota + 1
	operator        // operators alone
	engineers       // operators, and the partner's engineers
	secrets         // operators, and engineers if CONNECT_PARTNER_PORTAL_CHANGES has "secrets"
	webhooks        // operators, and engineers if it has "webhooks"
)

// errReadOnlyLink means that an engineer whose link is for reading alone asked for a change.
var errReadOnlyLink = errors.New("the link is for reading alone")

// principal is who asks: an operator, or an engineer of a partner.
type principal struct {
	Name     string // of the actor of the audit log
	ReadOnly bool
	Engineer bool
	Partner  uuid.UUID      // of an engineer
	changes  portal.Changes // of an engineer
}

// may returns an error unless the principal may ask for a route.
func (p principal) may(who right, method string) error {
	if p.Engineer && (who == operator || who == secrets && !p.changes.Secrets || who == webhooks && !p.changes.Webhooks) {
		return site.ErrNotFound
	}
	switch {
	case !p.ReadOnly || method == http.MethodGet:
		return nil
	case p.Engineer:
		return errReadOnlyLink
	}
	return operators.ErrReadOnly
}

// May reports whether the reader of a page may do the act of a route about its partner.
func (v view) May(act string) bool {
	return v.Who.may(v.rights["{partner}/"+act], http.MethodPost) == nil
}

type principalKey struct{}

// principalOf returns who asks, or an empty principal.
func principalOf(r *http.Request) principal {
	who, _ := r.Context().Value(principalKey{}).(principal)
	return who
}

// admitting admits who has a right, and makes them the actor.
func (c *console) admitting(right right, next http.Handler) http.Handler {
	return c.page(func(w http.ResponseWriter, r *http.Request) error {
		who, err := c.identify(r)
		if err != nil {
			return err
		}
		telemetry.EventOf(r.Context()).Operator = who.Name
		r = r.WithContext(context.WithValue(work.WithActor(r.Context(), who.Name), principalKey{}, who))
		if err := who.may(right, r.Method); err != nil {
			c.fail(w, r, err)
			return nil
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// ConsentPage shows the consent page of a partner. Nothing on it works.
type ConsentPage interface {
	// Show sends the page in a language. logo is the address of the partner's logo, empty if it has none. back is the
	// address of the console's page.
	Show(w http.ResponseWriter, r *http.Request, partner client.Client, tag, logo, back string)
	// ServeFile sends a file of the page, by the name in the path. Error: site.ErrNotFound.
	ServeFile(w http.ResponseWriter, r *http.Request) error
}

// PreviewFiles is the path of the files of [ConsentPage].
const PreviewFiles = Path + "/consent-page/"

// previewChoice links to the consent page in each language.
type previewChoice struct {
	aboutPartner
	Languages []choice // their own names
}

func (c *console) choosePreview(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	x := previewChoice{aboutPartner: aboutPartner{partner, "consent"}}
	for _, tag := range c.Texts.Tags() {
		x.Languages = append(x.Languages, choice{tag, display.Self.Name(language.Make(tag))})
	}
	return c.write(w, r, "consent", x)
}

func (c *console) showPreview(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	tag := chi.URLParam(r, "language")
	if !slices.Contains(c.Texts.Tags(), tag) {
		return site.ErrNotFound
	}
	logo := ""
	if partner.Logo.Name != "" {
		logo = c.partnerPath(partner.ID) + "/logo/" + partner.Logo.Name
	}
	c.Consent.Show(w, r, partner, tag, logo, c.partnerPath(partner.ID)+"/consent")
	return nil
}
