package pages

import (
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
)

// connection is a connection of the user as the account pages show it.
type connection struct {
	oauth.Connection
	Partner partner
	link    string // of a receipt
}

// Path is that of the page that disconnects the connection.
func (c connection) Path() string {
	if c.link != "" {
		return c.link
	}
	return accountBase + "/connections/" + c.Partner.ClientID.String() + "/disconnect"
}

// connections returns the connections of a user. Days are those of the user's calendar.
func (p *pages) connections(r *http.Request, user account.User) ([]connection, error) {
	found, err := p.OAuth.ConnectionsOfUser(r.Context(), user.ID)
	list := make([]connection, len(found))
	for i, c := range found {
		c.AuthorizedAt = c.AuthorizedAt.In(user.Zone())
		if c.LastReadAt != nil {
			*c.LastReadAt = c.LastReadAt.In(user.Zone())
		}
		list[i] = connection{Connection: c, Partner: partner{Partner: c.Partner}}
	}
	return list, err
}

// browsers returns the known browsers of a user. Days are those of the user's calendar.
func (p *pages) browsers(r *http.Request, user account.User) ([]account.Browser, error) {
	list, err := p.Accounts.Browsers(r.Context(), user.ID, knownKeys(r)...)
	for i := range list {
		list[i].SignedInAt = list[i].SignedInAt.In(user.Zone())
		if first := list[i].FirstAt; first != nil {
			*first = first.In(user.Zone())
		}
	}
	return list, err
}

// forgetBrowser ends what a browser is known for, and signs it out.
func (p *pages) forgetBrowser(w http.ResponseWriter, r *http.Request, _ account.User) error {
	form, err := site.ReadForm(w, r, "browser")
	if err != nil {
		return err
	}
	id, err := uuid.Parse(form["browser"])
	if err != nil {
		return site.ErrBadForm
	}
	key, _ := p.sessionKey(r)
	if err := p.Accounts.ForgetBrowser(r.Context(), key, id); err != nil {
		return err
	}
	return site.Redirect(accountBase + "?forgotten")
}

// showAccount lists the user's connections.
func (p *pages) showAccount(w http.ResponseWriter, r *http.Request, user account.User) error {
	list, err := p.connections(r, user)
	if err != nil {
		return err
	}
	browsers, err := p.browsers(r, user)
	if err != nil {
		return err
	}
	gone, err := p.gone(r, user)
	if err != nil {
		return err
	}
	p.site.Write(w, r, http.StatusOK, "account", view{
		Base: accountBase, Email: user.Email, Connections: list, Browsers: browsers, Gone: gone, News: r.URL.RawQuery,
	})
	return nil
}

// goneParameter of the list has the client that was just disconnected.
const goneParameter = "disconnected"

// gone returns the name of the partner that was just disconnected, unless it is connected again. It is empty without one.
func (p *pages) gone(r *http.Request, user account.User) (name string, err error) {
	client, err := uuid.Parse(r.URL.Query().Get(goneParameter))
	if err != nil {
		return "", nil //nolint:nilerr // anyone can write a link
	}
	c, err := p.OAuth.Connection(r.Context(), user.ID, client)
	if errors.Is(err, oauth.ErrNotConnected) || err == nil && c.State != oauth.Disconnected {
		return "", nil
	}
	return c.Partner.Name, err
}

// showDisconnect asks for confirmation and says what ends. Without a connection it redirects to the list.
func (p *pages) showDisconnect(w http.ResponseWriter, r *http.Request, of connection) error {
	if of.State == "" {
		return site.Redirect(accountBase)
	}
	p.site.Write(w, r, http.StatusOK, "disconnect", view{Base: accountBase, Partner: of.Partner, Connections: []connection{of}})
	return nil
}

// disconnect ends the connection (specification 3.2). A form that is submitted twice changes nothing the second time.
func (p *pages) disconnect(_ http.ResponseWriter, r *http.Request, of connection) error {
	err := p.OAuth.DisconnectUser(r.Context(), of.UserID, of.Partner.ClientID)
	if errors.Is(err, oauth.ErrNotConnected) {
		return site.ErrNotFound
	}
	if err != nil {
		return err
	}
	return site.Redirect(accountBase + "?" + goneParameter + "=" + of.Partner.ClientID.String())
}

// connectionOf returns the connection between the signed-in user and the client that the path names. Without one it has no state.
func (p *pages) connectionOf(r *http.Request) (of connection, err error) {
	user, err := p.signedIn(r)
	if err != nil {
		return of, err
	}
	of.UserID = user.ID
	if of.Partner.ClientID, err = site.PathID(r, "client"); err != nil {
		return of, err
	}
	list, err := p.connections(r, user)
	if i := slices.IndexFunc(list, func(c connection) bool { return c.Partner.ClientID == of.Partner.ClientID }); i >= 0 {
		of = list[i]
	}
	return of, err
}
