package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/edge/operator"
	"connect-svc/internal/edge/pages"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// edges are the handlers that a reload replaces.
type edges struct {
	texts    *locale.Catalogue
	pages    http.Handler
	site     *developers.Site // nil: off
	operator http.Handler     // nil: off
	console  http.Handler     // nil: off
	portal   http.Handler     // nil: off
}

func (a *App) newEdges(config Config) (e *edges, err error) {
	e = &edges{texts: cmp.Or(config.Texts, locale.Default())}
	var copies pages.Copy
	if config.AccountCopy {
		copies = func(ctx context.Context, w io.Writer, user account.User) error {
			return a.WriteCopy(work.WithActor(ctx, "user"), w, user, "account_pages")
		}
	}
	if e.pages, err = pages.New(pages.Config{
		BaseURL:         config.BaseURL,
		OAuth:           a.OAuth,
		Accounts:        a.Accounts,
		Activity:        a.Activity,
		Copy:            copies,
		Clients:         a.Clients,
		RequestLifetime: config.OAuth.RequestLifetime,
		TrustedProxies:  config.TrustedProxies,
		Brand:           config.Brand,
		Texts:           config.Texts,
		Developers:      config.DevelopersSite,
		SecurityContact: config.SecurityContact,
		Now:             a.Pool.Clock().Now,
		Limits:          config.Limits,
	}); err != nil {
		return nil, err
	}
	if config.DevelopersSite {
		if e.site, err = developers.New(developers.Config{Brand: config.Brand, BaseURL: config.BaseURL, SDKModule: config.SDKModule, AuthorityFile: config.AuthorityFile}); err != nil {
			return nil, err
		}
	}
	if config.Operators != nil {
		if e.operator, err = operator.New(operator.Config{
			Operators: config.Operators,
			Domains:   a.Domains,
			BaseURL:   config.BaseURL,
			Now:       config.Clock.Now,
			Limits:    config.Limits,
			Budget:    a.bodies,
		}); err != nil {
			return nil, err
		}
		// The origins of the private listener's names behind a proxy with TLS. Without TLS a network could send its own page in the name of
		// the listener, so the Host must match.
		origins := postgres.Map(config.PrivateHosts, func(name string) string { return "https://" + name })
		if e.console, err = a.newDesk(config, console.PreviewFiles, origins, console.New); err != nil {
			return nil, err
		}
	}
	if config.PartnerPortal {
		if e.portal, err = a.newDesk(config, console.PortalPreviewFiles, []string{site.OriginOf(config.BaseURL)}, console.NewPortal); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// newDesk makes the console or the portal. previews is the path of the files of its consent page, and origins are those of the desk.
func (a *App) newDesk(config Config, previews string, origins []string, newDesk func(console.Config) (http.Handler, error)) (http.Handler, error) {
	consent, err := pages.NewConsentPreview(previews, config.Brand, config.Texts, config.Clock.Now)
	if err != nil {
		return nil, err
	}
	codes := ""
	if config.DevelopersSite {
		codes = config.BaseURL + developers.CodesPath
	}
	return newDesk(console.Config{
		Operators:      config.Operators,
		Sessions:       a.sessions,
		Domains:        a.Domains,
		Consent:        consent,
		Facts:          a.facts,
		Dismiss:        a.dismiss,
		Alerts:         a.alertsNow,
		Now:            config.Clock.Now,
		Brand:          config.Brand,
		Texts:          config.Texts,
		CodesPage:      codes,
		BaseURL:        config.BaseURL,
		Origins:        origins,
		PortalOn:       config.PartnerPortal,
		Changes:        config.PortalChanges,
		TrustedProxies: config.TrustedProxies,
		Token:          config.ConsoleToken,
		Limits:         config.Limits,
	})
}

// reloads are the settings since the last reload.
type reloads struct {
	sync.Mutex
	config Config                         // of the last usable reload
	last   atomic.Pointer[console.Reload] // nil: none yet; who asks for it does not wait for a reload
}

// Reload applies the database's URL, brand, texts and operator tokens of config, and reads the certificates again. Everything else in config
// needs a restart. Running requests are not affected. inPart says which operator tokens could not be read; nil: all could.
func (a *App) Reload(config Config, inPart error) error {
	a.reloads.Lock()
	defer a.reloads.Unlock()
	renewed := a.reloads.config
	if config.DatabaseURL != renewed.DatabaseURL && config.DatabaseURL != "" {
		if err := a.lead(config.DatabaseURL); err != nil {
			return errors.Join(err, a.withdraw(config.Operators, err))
		}
		renewed.DatabaseURL = config.DatabaseURL
	}
	renewed.Brand, renewed.Texts, renewed.Operators = config.Brand, config.Texts, config.Operators
	if err := a.takeOver(renewed); err != nil {
		return errors.Join(err, a.withdraw(config.Operators, err))
	}
	a.Accounts.SetDesign(config.Brand, config.Texts)
	a.secured(func(_ string, certificate *listener.Presented) { certificate.Refresh(true) })
	a.noteReload(inPart)
	return nil
}

// lead has the service use the database at another URL, if it has the service's data and takes writes.
func (a *App) lead(to string) error {
	ctx, cancel := context.WithTimeout(work.AnyClock(context.Background()), a.config.Limits.Check)
	defer cancel()
	pool, err := postgres.Open(ctx, to, postgres.WithMaxConns(1), postgres.WithReadOnly(a.config.ReadOnly))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := CheckSchema(ctx, pool); err != nil {
		return err
	}
	if err := a.config.Keys.TryMarks(ctx, postgres.Noting{Pool: pool}); err != nil {
		return err
	}
	return postgres.Lead(a.Pool, to)
}

// Withdraw is for new settings that cannot be used. Everything stays the same, except that tokens which are not among those that were
// read stop working. New tokens do not work.
func (a *App) Withdraw(read *operators.Tokens, because error) error {
	a.reloads.Lock()
	defer a.reloads.Unlock()
	return a.withdraw(read, because)
}

func (a *App) withdraw(read *operators.Tokens, because error) error {
	a.noteReload(because)
	less := a.reloads.config
	less.Operators = read.Left(less.Operators)
	return a.takeOver(less)
}

func (a *App) takeOver(config Config) error {
	if config.ReadOnly {
		config.Operators = config.Operators.ReadOnly()
	}
	edges, err := a.newEdges(config)
	if err != nil {
		return err
	}
	a.edges.Store(edges)
	a.reloads.config = config
	return nil
}

func (a *App) noteReload(problem error) {
	last := console.Reload{At: a.config.Clock.Now()}
	if problem != nil {
		last.Problem = credential.Redact(problem.Error())
	}
	a.reloads.last.Store(&last)
}

func (a *App) lastReload() console.Reload { return postgres.Value(a.reloads.last.Load()) }
