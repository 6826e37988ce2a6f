package pages

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/account"
	"connect-svc/internal/brand"
	"connect-svc/internal/client"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/locale"
	"connect-svc/internal/oauth"
	"connect-svc/internal/web/site"
)

// Config is what the pages need. Only TrustedProxies, Brand and Texts may be empty.
type Config struct {
	OAuth           *oauth.Server
	Accounts        *account.Accounts
	RequestLifetime time.Duration     // of an authorization request: the cookie's lifetime, also shown on the pages
	TrustedProxies  []netip.Prefix    // whose X-Forwarded-For is trusted
	Clients         *client.Registry  // whose logos are shown
	Brand           brand.Brand       // whose pages these are; without a name: the program's own
	Texts           *locale.Catalogue // nil: those of the program
}

// pages is the configuration with the embedded files.
type pages struct {
	Config
	site *site.Site
}

// New serves every page, and an HTML page with status 404 for every other path or method. Mount it behind
// telemetry.Requests. An error means that the embedded files are inconsistent.
func New(config Config) (http.Handler, error) {
	if config.Texts == nil {
		config.Texts = locale.Default()
	}
	config.Brand.Name = cmp.Or(config.Brand.Name, brand.DefaultName)
	files, err := readSite(config.Brand, config.Texts, staticPath)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p := &pages{config, files}

	forms := http.NewCrossOriginProtection()
	forms.SetDenyHandler(p.page(failWith(errForeignForm)))

	router := chi.NewRouter()
	router.Use(site.Headers, secure, site.Named, timed, forms.Handler)
	router.NotFound(p.page(failWith(errNotFound)))
	router.MethodNotAllowed(p.page(failWith(errNotFound)))
	router.Get("/", p.page(failWith(site.Redirect(accountBase))))
	router.Get("/static/{name}", p.page(p.static))
	router.Head("/static/{name}", p.page(p.static))
	router.Get("/static/partners/{client}/{logo}", p.page(p.logo))
	router.Get("/oauth/authorize", p.page(p.authorize))
	router.Route("/authorize/{request}", func(r chi.Router) {
		p.routeSignIn(r, "", p.requestSignIn)
		r.Get("/consent", p.page(p.showConsent))
		r.Post("/consent", p.page(p.decide))
		r.Post("/restart", p.page(p.restart))
	})
	p.routeSignIn(router, accountBase, p.accountSignIn)
	router.Get("/account", p.page(p.showAccount))
	router.Post("/account/sign-out", p.page(p.signOut))
	router.Post("/account/browsers", p.page(p.forgetBrowser))
	router.Get("/account/connections/{client}/disconnect", p.page(p.showDisconnect))
	router.Post("/account/connections/{client}/disconnect", p.page(p.disconnect))
	return router, nil
}

// page responds with what handle writes, or with the redirect or error page of its error or panic.
func (p *pages) page(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return site.Handle(handle, p.fail)
}

func failWith(err error) func(http.ResponseWriter, *http.Request) error {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// requestTimeout is how long a request may take before it gets an error page (decisions, section 5: five seconds in
// all). The rest is for writing the page.
const requestTimeout = 4400 * time.Millisecond

// timed gives each request its deadline. A browser that goes away cancels only a GET that still waits for its turn.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		within := fairqueue.Within
		if r.Method == http.MethodGet {
			within = fairqueue.WithinWhileWanted
		}
		ctx, cancel := within(r.Context(), fairqueue.Pages, requestTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
