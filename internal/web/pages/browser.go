package browser

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/account"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
)

// Config is what the pages stand on. Every field but TrustedProxies is needed.
type Config struct {
	OAuth           *oauth.Server
	Accounts        *account.Accounts
	RequestLifetime time.Duration  // of an authorization request: how long the cookie lives, and what pages say
	TrustedProxies  []netip.Prefix // whose X-Forwarded-For is believed
}

// pages are the configuration with what was read from the embedded files.
type pages struct {
	Config
	site *site
}

// New serves every page, and an HTML page with status 404 for each path or method that is none. Mount it behind
// telemetry.Requests. An error says that the embedded files do not fit together.
func New(config Config) (http.Handler, error) {
	site, err := readSite()
	if err != nil {
		return nil, fmt.Errorf("browser: %w", err)
	}
	p := &pages{config, site}

	forms := http.NewCrossOriginProtection()
	forms.SetDenyHandler(p.page(func(http.ResponseWriter, *http.Request) error { return errForeignForm }))

	router := chi.NewRouter()
	router.Use(headers, named, timed, forms.Handler)
	router.NotFound(p.page(notFound))
	router.MethodNotAllowed(p.page(notFound))
	router.Get("/static/{name}", p.page(p.static))
	router.Get("/oauth/authorize", p.page(p.authorize))
	router.Route("/authorize/{request}", func(r chi.Router) {
		r.Get("/sign-in", p.page(p.showSignIn))
		r.Post("/sign-in", p.page(p.signIn))
		r.Get("/code", p.page(p.showCode))
		r.Post("/code", p.page(p.enterCode))
		r.Post("/new-code", p.page(p.newCode))
		r.Get("/consent", p.page(p.showConsent))
		r.Post("/consent", p.page(p.decide))
	})
	router.Get("/account", p.page(p.showAccount))
	router.Get("/account/sign-in", p.page(p.showAccountSignIn))
	router.Post("/account/sign-in", p.page(p.signInToAccount))
	router.Get("/account/code", p.page(p.showAccountCode))
	router.Post("/account/code", p.page(p.enterAccountCode))
	router.Post("/account/new-code", p.page(p.newAccountCode))
	router.Post("/account/sign-out", p.page(p.signOut))
	router.Get("/account/connections/{client}/disconnect", p.page(p.showDisconnect))
	router.Post("/account/connections/{client}/disconnect", p.page(p.disconnect))
	return router, nil
}

// page answers with a handler, and with the error page where it fails or panics.
func (p *pages) page(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if failure := recover(); failure == any(http.ErrAbortHandler) {
				panic(failure)
			} else if failure != nil {
				p.fail(w, r, fmt.Errorf("panic: %v", failure))
			}
		}()
		if err := handle(w, r); err != nil {
			p.fail(w, r, err)
		}
	}
}

// named gives the request's one log event the name of its route: paths hold the ids of requests.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if pattern := chi.RouteContext(r.Context()).RoutePattern(); pattern != "" {
				telemetry.EventOf(r.Context()).Operation = pattern
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// requestTime is how long a request may take before it is answered with an error page (decisions, section 5: five seconds
// in all). What is left is for writing the page.
const requestTime = 4400 * time.Millisecond

// timed gives each request its time, whatever becomes of the browser.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		within := fairqueue.Within
		if r.Method == http.MethodGet {
			within = fairqueue.WithinWhileWanted
		}
		ctx, cancel := within(r.Context(), fairqueue.Pages, requestTime)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func notFound(http.ResponseWriter, *http.Request) error { return errNotFound }
