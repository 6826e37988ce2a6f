// Package pages serves the pages that a user sees: the path from /oauth/authorize through the sign-in to the decision
// (specification 4.2, 4.11), and the account pages, where users see and end their connections.
//
//	GET /oauth/authorize ─303─▶ /authorize/{request}/sign-in ─▶ …/code ─▶ …/consent (─▶ …/disconnect) ─303─▶ the callback
//	GET /account ─303─▶ /account/sign-in ─▶ /account/code ─▶ /account ─▶ …/disconnect ─▶ /account
//	GET /account/receipt/{receipt}
//
// # Invariants
//
//   - A request belongs to the browser that opened it. One cookie holds the browser's secret, of which the domain knows
//     the hash, and every page and form of the request needs it. In another browser no page reveals whose request it is, or
//     whether it exists (TestAnotherBrowser). In its own browser an ended request says why it ended (TestRequestEnds_3_1).
//   - A session of the account pages is one cookie, too, and expires by the database's clock. It lists and ends only its
//     own user's connections. An authorization request signs nobody in to the account pages, nor the other way round
//     (TestAccountSessionEnds_4, TestAccountAndAuthorizationSignInsAreApart_5_3).
//   - The link of a receipt needs no session. Opening it changes nothing, its page shows no address, and it ends no connection that
//     began later (TestReceiptEndsAConnection, TestReceiptSignsABrowserOut). All that do not work look the same (TestReceiptsThatDoNotWork).
//   - A form that is sent twice has the same result twice, whether or not the browser has kept the first answer (TestFormsTwice).
//   - Only a decision of the user goes to the callback (specification 7.1). Every error is a page (TestAuthorizeErrors_7_2,
//     TestWholeWay_3_1).
//   - A form is accepted only from our own pages: the cookie is SameSite, and site.OwnForms checks
//     Sec-Fetch-Site or Origin. The body is bounded; each field is known, occurs once and contains no NUL (TestForeignForms, TestForms).
//   - Every page is complete without scripts and carries the headers of site.Headers, whatever its status (TestChromiumEveryPage,
//     TestHeaders).
//   - Neither a page nor its timing reveals whether an address has an account (TestUnknownAddress4, TestAccountUnknownAddress_4).
//
// The package decides nothing: the rules are those of packages oauth and account.
package pages

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Config is what the pages need. Only BaseURL, Activity, Copy, TrustedProxies, Brand, Texts, Developers, SecurityContact and Limits may be empty.
type Config struct {
	BaseURL         string // whose origin is that of the pages, whatever a proxy makes of the Host
	OAuth           *oauth.Server
	Accounts        *account.Accounts
	Activity        *activity.Store   // what consent shows of the user's day, or nil to show nothing
	Copy            Copy              // what writes a copy of a user's data, or nil to offer none
	RequestLifetime time.Duration     // of an authorization request: the cookie's lifetime, also shown on the pages
	TrustedProxies  network.Proxies   // whose X-Forwarded-For is trusted
	Clients         *client.Registry  // whose logos are shown
	Brand           brand.Brand       // whose pages these are; without a name: the program's own
	Texts           *locale.Catalogue // nil for those of the program
	Developers      bool              // whether the listener has the developers' site, which search engines may find
	SecurityContact string            // where weaknesses are reported, https: or mailto:; empty: security.txt is 404
	Now             func() time.Time
	Limits          work.Limits // of the time that a request may take, and of its wait for an email
}

// Copy writes a copy of all data of a user.
type Copy = func(ctx context.Context, w io.Writer, user account.User) error

// pages is the configuration with the embedded files.
type pages struct {
	Config
	site *site.Site
}

// New serves every page, and an HTML page with status 404 for every other path or method. Mount it behind
// telemetry.Requests. An error means that the embedded files are inconsistent.
func New(config Config) (http.Handler, error) {
	files, err := readSite(config.Brand, config.Texts, staticPath)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	config.Limits = config.Limits.OrDefault()
	p := &pages{config, files}

	router := chi.NewRouter()
	refuse := func(_ http.ResponseWriter, r *http.Request) error {
		if !router.Match(chi.NewRouteContext(), r.Method, r.URL.Path) { // such as a POST of a partner's page to authorizePath
			return site.ErrNotFound
		}
		return site.ErrForeignForm
	}
	ownForms, err := site.OwnForms(p.page(refuse), site.OriginOf(config.BaseURL))
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	router.Use(site.Headers, middleware.SetHeader("Strict-Transport-Security", "max-age=63072000"), site.Named, site.Timed(p.caller, config.Limits.Act), ownForms, p.inChosenLanguage)
	router.NotFound(p.page(site.FailWith(site.ErrNotFound)))
	router.MethodNotAllowed(p.page(site.FailWith(site.ErrNotFound)))
	router.Get("/", p.page(site.FailWith(site.Redirect(accountBase))))
	router.Get("/robots.txt", p.page(p.robots))
	router.Get("/.well-known/security.txt", p.page(p.security))
	router.Get("/static/{name}", p.page(p.site.ServeFile))
	router.Get("/static/partners/{client}/{logo}", p.page(p.logo))
	// Partners open the pages of an authorization, and their form for the language, in a window of their page, which they could not reach any more
	// with our usual policy.
	ofOpener := middleware.SetHeader("Cross-Origin-Opener-Policy", "unsafe-none")
	router.With(ofOpener).Get(authorizePath, p.page(p.authorize))
	router.Route("/authorize/{request}", func(r chi.Router) {
		r.Use(ofOpener)
		p.routeSignIn(r, "", p.requestSignIn)
		r.Get("/cancel", p.page(site.Given(p.pending, p.showCancel)))
		r.Get("/consent", p.page(site.Given(p.pending, p.showConsent)))
		r.Post("/consent", p.page(p.decide))
		r.Get("/disconnect", p.page(site.Given(p.pending, p.showEnd)))
		r.Post("/restart", p.page(site.Given(p.pending, site.Confirmed(p.restart))))
	})
	p.routeSignIn(router, accountBase, p.accountSignIn)
	router.Get("/account", p.page(site.Given(p.signedIn, p.showAccount)))
	if p.Copy != nil {
		router.Get(copyPath, p.page(site.Given(p.signedIn, p.sendCopy)))
	}
	router.With(ofOpener).Post(languagePath, p.page(p.chooseLanguage(router)))
	router.Post("/account/sign-out", p.page(p.signOut))
	router.Post("/account/browsers", p.page(site.Given(p.signedIn, p.forgetBrowser)))
	router.Get("/account/connections/{client}/disconnect", p.page(site.Given(p.connectionOf, p.showDisconnect)))
	router.Post("/account/connections/{client}/disconnect", p.page(site.Given(p.connectionOf, site.Confirmed(p.disconnect))))
	router.Get(account.ReceiptPath+"{receipt}", p.page(site.Given(p.receiptOf, p.showReceipt)))
	router.Post(account.ReceiptPath+"{receipt}", p.page(site.Given(p.receiptOf, site.Confirmed(p.useReceipt))))
	return router, nil
}

// page responds with what handle writes, or with the redirect or error page of its error or panic.
func (p *pages) page(handle site.Handler) http.HandlerFunc {
	return site.Handle(handle, p.fail)
}

//go:embed templates static
var files embed.FS

// staticPath is where the files of the pages are served.
const staticPath = "/static/"

func readSite(design brand.Brand, texts *locale.Catalogue, static string) (*site.Site, error) {
	return site.New(site.Config{Files: files, Static: static, Brand: design, Texts: texts, Funcs: func(language *locale.Locale) template.FuncMap {
		return template.FuncMap{
			"initial": brand.Initial,
			"host": func(address string) string { // which people recognize
				parsed, err := url.Parse(address)
				if err != nil {
					return ""
				}
				return parsed.Host
			},
			"span":   language.Span,
			"moment": language.Moment,
			"hour":   func(at time.Time) string { return language.Time(at.Add(-time.Duration(at.Minute()) * time.Minute)) }, // that has begun
			"sofar":  func(today activity.Today) string { return soFar(language, today) },
			// accountLink leads to the account pages from within a text: from the consent, where the decision waits, in a tab of their own. On the
			// listener of a preview there are none: there it is a link that cannot be followed, and takes no keys.
			"accountLink": func(v view) template.HTML {
				name := language.HTML("account.name")
				switch {
				case v.Preview != "":
					return `<a class="inline" role="link" aria-disabled="true">` + name + `</a>`
				case v.Consent.Email != "":
					return `<a class="inline" href="/account" target="_blank">` + name + `<span class="only-read"> ` + language.HTML("page.new_tab") + `</span></a>`
				}
				return `<a class="inline" href="/account">` + name + `</a>`
			},
		}
	}})
}

// logo serves that of a partner.
func (p *pages) logo(w http.ResponseWriter, r *http.Request) error {
	id, err := site.PathID(r, "client")
	if err != nil {
		return site.ErrNotFound
	}
	logo, err := p.Clients.Logo(r.Context(), id, chi.URLParam(r, "logo"))
	if err != nil {
		return err
	}
	site.Unchanging(w, logo.MediaType())
	w.Header().Set("Content-Type", logo.MediaType())
	_, _ = w.Write(logo.Content) // fails only where nobody reads it any more
	return nil
}

// failure is the response to an error.
type failure struct {
	status int
	view   string // the template
	code   string // for the log; the page shows it in small print if it is one of specification 7.2
}

// failureOf is the table of errors and their pages. An error that is not in it is a fault of the service.
func failureOf(err error) failure {
	var refused *oauth.AuthorizeError
	switch {
	case errors.As(err, &refused):
		return failure{http.StatusBadRequest, "refused", string(refused.Cause)}
	case errors.Is(err, oauth.ErrRequestEnded):
		return failure{http.StatusBadRequest, "ended", string(oauth.InvalidRequest)}
	case errors.Is(err, site.ErrBadForm):
		return failure{http.StatusBadRequest, "bad-form", "bad_form"}
	case errors.Is(err, site.ErrForeignForm):
		return failure{http.StatusForbidden, "bad-form", "foreign_form"}
	case errors.Is(err, site.ErrNotFound), errors.Is(err, refusal.ErrClientNotFound):
		return failure{http.StatusNotFound, "not-found", "not_found"}
	case errors.Is(err, account.ErrNoReceipt):
		return failure{http.StatusNotFound, "receipt", "no_receipt"}
	case errors.Is(err, account.ErrTooManyCodes):
		return failure{http.StatusTooManyRequests, "too-many-codes", "too_many_codes"}
	}
	return failure{http.StatusInternalServerError, "fault", "fault"}
}

// fail responds with the error's page, never with a redirect to the callback (specification 7.1).
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	event := telemetry.EventOf(r.Context())
	failure := failureOf(err)
	event.Code = failure.code
	if refused := (*oauth.AuthorizeError)(nil); errors.As(err, &refused) {
		event.Reason, event.ClaimedID = refused.Reason, refused.ClientID // anyone with the link can send it
	}
	if failure.status == http.StatusInternalServerError {
		event.Cause = err
	}
	w.Header().Set("Content-Security-Policy", site.Policy)
	w.Header().Set("X-Request-ID", event.RequestID.String())
	v := view{Base: baseOf(r), Code: failure.code}
	if failure.view == "ended" {
		ending := p.ending(r)
		v.Problem, v.Partner, v.Denied = ending.Cause, partner{Partner: ending.Partner}, ending.Denied
		switch {
		case v.Problem == oauth.EndedByTime && errors.Is(err, oauth.ErrDayOver):
			v.Problem = "midnight"
		case v.Problem == oauth.EndedByPartner:
			v.Code, event.Code = string(ending.Refusal), string(ending.Refusal)
		}
	}
	if limited := new(account.TooManyCodesError); errors.As(err, &limited) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(limited.Wait.Seconds()))))
		v.Wait, v.Restart = limited.Wait, limited.Over
	}
	p.site.Write(w, r, failure.status, failure.view, v)
}

// ending returns why a request has ended, with a cause that the template knows. After a failure the cause is unknown.
func (p *pages) ending(r *http.Request) oauth.Ending {
	kept, err := keeps(r)
	ending, failure := p.OAuth.Ending(r.Context(), kept.asked, kept.browser)
	if err != nil || failure != nil {
		return oauth.Ending{Cause: "unknown"}
	}
	if kept.outcome != "" {
		ending.Cause, ending.Denied = oauth.EndedByDecision, kept.outcome == denied
	}
	return ending
}

// baseOf returns the prefix of the paths of the request's sign-in, or an empty string. Error pages link to the page for its code, which
// redirects to the form for the address if no code was sent.
func baseOf(r *http.Request) string {
	if request := chi.URLParam(r, "request"); request != "" {
		return "/authorize/" + request
	}
	if site.IsBelow(r.URL.Path, accountBase) {
		return accountBase
	}
	return ""
}

// robots asks search engines not to crawl pages that are for one person, and the API (RFC 9309).
func (p *pages) robots(w http.ResponseWriter, _ *http.Request) error {
	text := "User-agent: *\nDisallow: /\n"
	if p.Developers {
		text += "Allow: /developers/\nDisallow: /developers/sandbox/\n" // the longest path decides
	}
	return writeText(w, text)
}

// securityLifetime is how long somebody may rely on security.txt: less than a year (RFC 9116, section 2.5.5).
const securityLifetime = 180 * 24 * time.Hour

// security says where weaknesses are reported (RFC 9116).
func (p *pages) security(w http.ResponseWriter, _ *http.Request) error {
	if p.SecurityContact == "" {
		return site.ErrNotFound
	}
	expires := p.Now().UTC().Add(securityLifetime).Truncate(24 * time.Hour)
	return writeText(w, fmt.Sprintf("Contact: %s\nExpires: %s\nCanonical: %s/.well-known/security.txt\n", p.SecurityContact, expires.Format(time.RFC3339), p.BaseURL))
}

func writeText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = io.WriteString(w, text) // fails only if the reader has gone
	return nil
}
