package pages

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/work"
)

// Config is what the pages need. Only BaseURL, Activity, TrustedProxies, Brand, Texts and Limits may be empty.
type Config struct {
	BaseURL         string // whose origin is that of the pages, whatever a proxy makes of the Host
	OAuth           *oauth.Server
	Accounts        *account.Accounts
	Activity        *activity.Store   // what consent shows of the user's day, or nil to show nothing
	RequestLifetime time.Duration     // of an authorization request: the cookie's lifetime, also shown on the pages
	TrustedProxies  network.Proxies   // whose X-Forwarded-For is trusted
	Clients         *client.Registry  // whose logos are shown
	Brand           brand.Brand       // whose pages these are; without a name: the program's own
	Texts           *locale.Catalogue // nil for those of the program
	Limits          work.Limits       // of the time that a request may take, and of its wait for an email
}

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

	ownForms, err := site.OwnForms(p.page(site.FailWith(site.ErrForeignForm)), site.OriginOf(config.BaseURL))
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	router := chi.NewRouter()
	router.Use(site.Headers, middleware.SetHeader("Strict-Transport-Security", "max-age=63072000"), site.Named, site.Timed(p.caller, config.Limits.Act), ownForms, p.inChosenLanguage)
	router.NotFound(p.page(site.FailWith(site.ErrNotFound)))
	router.MethodNotAllowed(p.page(site.FailWith(site.ErrNotFound)))
	router.Get("/", p.page(site.FailWith(site.Redirect(accountBase))))
	router.Get("/static/{name}", p.page(p.site.ServeFile))
	router.Get("/static/partners/{client}/{logo}", p.page(p.logo))
	// Partners open the pages of an authorization in a window of their page, which they could not reach any more with our usual policy.
	ofOpener := middleware.SetHeader("Cross-Origin-Opener-Policy", "unsafe-none")
	router.With(ofOpener).Get("/oauth/authorize", p.page(p.authorize))
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
	router.Post(languagePath, p.page(p.chooseLanguage(router)))
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
