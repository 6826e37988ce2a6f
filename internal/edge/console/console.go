// Package console is the operator's console, /console of the private listener. People support users and partners in it and watch the
// service. It does what the operator API does, for a browser. Its pages about one partner are also the portal, /partners of the public
// listener, for engineers of that partner to whom the operator gave a link.
//
//	GET /console ─303─▶ /console/sign-in ─▶ /console ─▶ /console/users ─▶ …/{user} ─▶ …/delete ─▶ /console/users
//
//	GET /partners/{partner}/open/{link} ─POST─▶ /partners/{partner} ─▶ …/webhooks
//
// # Invariants
//
//   - One table, routes, says of each page and act who may ask for it, how long it may take, what is shown before and what it does. A
//     server with a route that has no right or no time does not start (TestRights, TestEveryRouteHasARight, TestTimeOfActs).
//   - The portal shows one partner, and names no user and no operator (TestPortal).
//   - Every page but the sign-in requires a session, which an operator token starts. One cookie holds its key, SameSite=Strict
//     (TestSignIn, TestCookie).
//   - A GET changes nothing, but an export of the audit log is audited. Forms are accepted only from the console's own pages
//     (site.OwnForms), and not from read-only tokens. The listener has checked the Host (TestForgedForms,
//     TestPartnersForReadingAlone, TestAuditCSV).
//   - A page announces each act, in numbers, and has its form. The audit log has the act under the operator's name (TestAdjust,
//     TestDisconnect, TestOffboard).
//   - A secret is shown once, in the answer to the form that created it, and no browser stores it (TestRegister,
//     TestReplaceSecret).
//   - Every page works without scripts, at 320 px, in light and dark. Charts are there in words and numbers, too
//     (TestChromiumPartner, TestChromiumUsage, TestChromiumHostileTexts).
//   - Text that users, partners and operators have written stays text on every page (TestChromiumHostileTexts).
//   - A page reads a bounded number of rows from an index (TestTimelineBehindManyOthers, TestAuditSearchesInParts).
//   - A field is refused in the words of the domain, which the operator API has, too (TestRegister, TestChangeUser).
//
// The package has no rules. They belong to the domains.
package console

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

// Path is the path of the console.
const Path = "/console"

// Config of the console. Only TrustedProxies, Brand, Texts, Token and Limits may be empty.
type Config struct {
	preview.Domains
	Operators *operators.Tokens
	Sessions  *operators.Sessions
	Consent   ConsentPage
	Facts     func(context.Context) Facts            // of the service as a whole
	Dismiss   func(context.Context, uuid.UUID) error // forgets a server that is lost
	Alerts    func(context.Context) Facts            // only the servers and their alerts
	Now       func() time.Time
	Brand     brand.Brand       // of the operator; without a name, the program's own
	Texts     *locale.Catalogue // of users' pages and of the console, or nil for the built-in ones

	CodesPage      string          // the address of the page about the codes of errors, or empty
	BaseURL        string          // of the public listener, or empty for no links there
	Origins        []string        // of these pages in browsers, besides the Host of each request; see site.OwnForms
	PortalOn       bool            // whether the public listener serves the portal
	Changes        portal.Changes  // what a partner's engineers may do there
	TrustedProxies network.Proxies // whose X-Forwarded-For is trusted

	Token  string      // prefilled at sign-in, for a local demo, or empty
	Limits work.Limits // of requests' time
}

// console is the configuration with the embedded files. It is also the portal, which has the pages about one partner.
type console struct {
	Config
	site     *site.Site
	base     string                                 // the path before /partners/{partner}: Path, or nothing in the portal
	ownForms func(http.Handler) http.Handler        // refuses those of other sites
	identify func(*http.Request) (principal, error) // who asks
	rights   map[string]right                       // of each route
}

// inConsole makes the console the caller in the queue for the database.
var inConsole = work.Caller{Kind: work.Console}

//go:embed templates static
var files embed.FS

// New returns the handler of [Path] and everything below it. Mount it behind telemetry.Requests and a check of the Host. It fails
// only if the embedded files are inconsistent, or a route has no right.
func New(config Config) (http.Handler, error) {
	c, err := newConsole(config, Path, Path+"/static/")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.identify = c.operatorOf
	return c.router(c.routes(), func(*http.Request) work.Caller { return inConsole })
}

// places and tabs are what the console and the portal are called, and the pages about one partner besides the first one, by base.
var (
	places = map[string]string{Path: "console.name", "": "console.portal.name"}
	tabs   = map[string][]string{
		Path: {"usage", "refused", "connections", "webhooks", "log", "consent", "changes", "portal"},
		"":   {"usage", "refused", "connections", "webhooks", "log", "consent", "changes"},
	}
)

func newConsole(config Config, base, static string) (*console, error) {
	if config.Texts == nil {
		config.Texts = locale.Default()
	}
	funcs := func(language *locale.Locale) template.FuncMap {
		w := newWriter(language)
		return template.FuncMap{
			"base":  func() string { return base },
			"place": func() string { return places[base] },
			"tabs":  func() []string { return tabs[base] },
			"parts": func() []string { return parts }, "number": w.Number, "percent": w.percent, "took": w.took, "lasted": w.lasted, "size": w.size,
			"signed": w.signed, "instant": instant, "date": date, "hour": hour, "list": func(names ...string) []string { return names },
			"figure": w.figure, "span": w.duration, "codes": codes, "age": w.age, "cells": w.cells,
		}
	}
	c := &console{Config: config, base: base}
	var err error
	if c.ownForms, err = site.OwnForms(c.page(site.FailWith(site.ErrForeignForm)), config.Origins...); err != nil {
		return nil, err
	}
	c.site, err = site.New(site.Config{Files: files, Static: static, Brand: config.Brand, Texts: config.Texts.Console(), Funcs: funcs})
	c.Limits = config.Limits.OrDefault()
	return c, err
}

// page serves a handler, and turns its error or panic into a redirect or an error page.
func (c *console) page(handle site.Handler) http.HandlerFunc {
	return site.Handle(handle, c.fail)
}

// view is the data of a template.
type view struct {
	Who  principal // empty if nobody is signed in
	Part string    // the entry in the navigation
	Find *string   // what was searched for, or nil if the page is not about a search
	News string    // the text of the act that was just done
	Zone string    // in which the page shows times
	X    any       // the page's own data

	rights map[string]right
}

// write sends a page.
func (c *console) write(w http.ResponseWriter, r *http.Request, name string, x any) error {
	return c.show(w, r, http.StatusOK, name, x)
}

// refuse sends the page of a form again, with its problems.
func (c *console) refuse(w http.ResponseWriter, r *http.Request, name string, x any) error {
	return c.show(w, r, http.StatusUnprocessableEntity, name, x)
}

func (c *console) show(w http.ResponseWriter, r *http.Request, status int, name string, x any) error {
	part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Path+"/"), "/")
	v := view{Who: principalOf(r), Part: part, Zone: c.zoneOf(r), X: x, rights: c.rights}
	result := r.URL.Query().Get("done")
	if _, known := doneTexts[result]; known {
		v.News = string(c.site.Locale(r).HTML("console.done." + result))
	}
	if r.URL.Path == findPath || r.URL.Path == usersPath {
		v.Find = new(r.URL.Query().Get("q"))
	}
	if v.Zone != "UTC" {
		w = zoned{w, timezone.Location(v.Zone)}
	}
	c.site.Write(w, r, status, name, v)
	return nil
}

// done redirects to a page that shows the text console.done.{what}.
func done(path, result string) site.Redirect { return site.Redirect(path + "?done=" + result) }

// outcome returns the error of an act, or redirects like done.
func outcome(err error, path, result string) error { return cmp.Or[error](err, done(path, result)) }

// doneTexts has the names of all acts.
var doneTexts = map[string]struct{}{
	"user_deleted": {}, "user_changed": {}, "limits_lifted": {}, "connection_disconnected": {}, "activity_adjusted": {}, "adjustment_removed": {},

	"partner_changed": {}, "partner_exists": {}, "logo_set": {}, "logo_removed": {}, "partner_disabled": {}, "partner_enabled": {},
	"partner_revoked": {}, "partner_offboarded": {}, "webhook_set": {}, "webhook_exists": {}, "webhook_removed": {}, "webhook_paused": {}, "webhook_resumed": {},
	"change_requested": {}, "change_same": {}, "change_withdrawn": {}, "change_approved": {}, "change_refused": {}, "change_stale": {}, "change_moved": {}, "event_replayed": {}, "event_waits": {},
	"server_dismissed": {}, "sessions_ended": {}, "session_ended": {}, "zone_set": {}, "zone_unknown": {},
}
