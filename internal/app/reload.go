package app

import (
	"net/http"

	"connect-svc/internal/api/operator"
	"connect-svc/internal/web/console"
	"connect-svc/internal/web/developers"
	"connect-svc/internal/web/pages"
)

// edges are the handlers that are made of what can be read again while the service runs.
type edges struct {
	pages    http.Handler
	site     *developers.Site // nil: off
	operator http.Handler     // nil: off
	console  http.Handler     // nil: off
}

func (a *App) newEdges(config Config) (e *edges, err error) {
	e = &edges{}
	if e.pages, err = pages.New(pages.Config{
		OAuth:           a.OAuth,
		Accounts:        a.Accounts,
		Clients:         a.Clients,
		RequestLifetime: config.OAuth.RequestLifetime,
		TrustedProxies:  config.TrustedProxies,
		Brand:           config.Brand,
		Texts:           config.Texts,
		Limits:          config.Limits,
	}); err != nil {
		return nil, err
	}
	if config.DevelopersSite {
		if e.site, err = developers.New(developers.Config{Brand: config.Brand, BaseURL: config.BaseURL, SDKModule: config.SDKModule}); err != nil {
			return nil, err
		}
	}
	if config.Operators != nil {
		if e.operator, err = operator.New(operator.Config{
			Operators: config.Operators,
			Accounts:  a.Accounts,
			Activity:  a.Activity,
			OAuth:     a.OAuth,
			Clients:   a.Clients,
			Webhooks:  a.Webhooks,
			Usage:     a.Usage,
			Audit:     a.audit,
			Now:       config.Clock.Now,
			Limits:    config.Limits,
			Budget:    a.bodies,
		}); err != nil {
			return nil, err
		}
		consent, err := pages.NewConsentPreview(console.PreviewFiles, config.Brand, config.Texts, config.Clock.Now)
		if err != nil {
			return nil, err
		}
		if e.console, err = console.New(console.Config{
			Operators: config.Operators,
			Sessions:  a.sessions,
			Accounts:  a.Accounts,
			Activity:  a.Activity,
			OAuth:     a.OAuth,
			Clients:   a.Clients,
			Webhooks:  a.Webhooks,
			Usage:     a.Usage,
			Audit:     a.audit,
			Consent:   consent,
			Facts:     a.facts,
			Now:       config.Clock.Now,
			Brand:     config.Brand,
			Texts:     config.Texts,
			Token:     config.ConsoleToken,
			Limits:    config.Limits,
		}); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Reload takes over what config says of brand, texts and operator tokens, and reads the certificates again. What else config
// says needs a restart. Requests that are being answered are not affected.
func (a *App) Reload(config Config) error {
	renewed := a.config
	renewed.Brand, renewed.Texts, renewed.Operators = config.Brand, config.Texts, config.Operators
	edges, err := a.newEdges(renewed)
	if err != nil {
		return err
	}
	a.edges.Store(edges)
	a.Accounts.SetLook(config.Brand, config.Texts)
	a.refreshCertificates(true)
	return nil
}
