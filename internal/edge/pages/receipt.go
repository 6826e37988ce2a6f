package pages

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
)

// receipt is what the link of a receipt is about. Its page needs no session and does not show the user's address.
type receipt struct {
	account.Receipt
	view view
}

// receiptOf finds the receipt that the path names, and what it is about. It changes nothing, because programs that look at emails open links,
// too. Error: account.ErrNoReceipt.
func (p *pages) receiptOf(r *http.Request) (found receipt, err error) {
	of, user, err := p.Accounts.OpenReceipt(r.Context(), chi.URLParam(r, "receipt"))
	if err != nil {
		return found, err
	}
	found = receipt{Receipt: of, view: view{Base: accountBase}}
	if of.ClientID == uuid.Nil {
		browser, signedIn, err := p.Accounts.BrowserOfReceipt(r.Context(), of)
		browser.SignedInAt = browser.SignedInAt.In(user.Zone())
		found.view.Problem, found.view.Link = "browser", r.URL.Path
		found.view.Browsers, found.view.Over = []account.Browser{browser}, !signedIn
		return found, err
	}
	c, err := p.OAuth.Connection(r.Context(), of.UserID, of.ClientID)
	if errors.Is(err, oauth.ErrNotConnected) {
		err = account.ErrNoReceipt
	}
	c.AuthorizedAt = c.AuthorizedAt.In(user.Zone())
	found.view.Partner = partner{Partner: c.Partner}
	found.view.Connections = []connection{{Connection: c, Partner: found.view.Partner, link: r.URL.Path}}
	switch {
	case c.State == oauth.Disconnected:
		found.view.Problem, found.view.Over = "ended", true
	case c.Version != of.Version:
		found.view.Problem, found.view.Over = "renewed", true
	}
	return found, err
}

// showReceipt asks whether to end what the receipt is about, or says why there is nothing to end.
func (p *pages) showReceipt(w http.ResponseWriter, r *http.Request, of receipt) error {
	name := "receipt"
	if !of.view.Over && of.ClientID != uuid.Nil {
		name = "disconnect"
	}
	p.site.Write(w, r, http.StatusOK, name, of.view)
	return nil
}

// useReceipt ends what the receipt is about. A form that is submitted twice changes nothing the second time. Then the page says how it is now.
func (p *pages) useReceipt(_ http.ResponseWriter, r *http.Request, of receipt) error {
	var err error
	switch {
	case of.view.Over:
	case of.ClientID == uuid.Nil:
		err = p.Accounts.EndBrowser(r.Context(), of.Receipt)
	default:
		err = p.OAuth.DisconnectVersion(r.Context(), of.UserID, of.ClientID, of.Version)
	}
	if err != nil && !errors.Is(err, oauth.ErrNotConnected) { // the latter: it has just changed
		return err
	}
	return site.Redirect(r.URL.Path)
}

// FindConnection returns what receipts say of a connection.
func FindConnection(server *oauth.Server) func(ctx context.Context, userID, clientID uuid.UUID) (account.Connected, error) {
	return func(ctx context.Context, userID, clientID uuid.UUID) (account.Connected, error) {
		c, err := server.Connection(ctx, userID, clientID)
		if errors.Is(err, oauth.ErrNotConnected) {
			err = account.ErrNotConnected
		}
		return account.Connected{
			Partner: c.Partner.Name, Version: c.Version, Live: c.State == oauth.Authorized, Scopes: c.Scopes,
			HistoryFrom: c.HistoryFrom, AuthorizedAt: c.AuthorizedAt, Browser: c.Browser,
		}, err
	}
}
