package pages

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// connection is a connection of the user as the account pages show it.
type connection struct {
	oauth.Connection
	Partner   partner
	LastReads []lastRead
	link      string // of a receipt
}

// lastRead is when a partner last read what a scope grants, as far as that is known: the day, and of today the hour.
type lastRead struct {
	Scope   string // empty: unknown
	At      time.Time
	DaysAgo int
}

// Path is that of the page that disconnects the connection.
func (c connection) Path() string {
	if c.link != "" {
		return c.link
	}
	return accountBase + "/connections/" + c.Partner.ClientID.String() + "/disconnect"
}

// connections returns the connections of a user. Days and hours are those of the user's calendar.
func (p *pages) connections(r *http.Request, user account.User) ([]connection, error) {
	all, err := p.OAuth.ConnectionsOfUser(r.Context(), user.ID)
	list := make([]connection, len(all))
	for i, c := range all {
		c.AuthorizedAt = c.AuthorizedAt.In(user.Zone())
		list[i] = connection{Connection: c, Partner: partner{Partner: c.Partner}}
		for _, read := range c.Reads {
			at := read.At.In(user.Zone())
			list[i].LastReads = append(list[i].LastReads, lastRead{read.Of.String(), at, int(timezone.Day(p.Now().In(user.Zone())).Sub(timezone.Day(at)) / (24 * time.Hour))})
		}
	}
	return list, err
}

// forgetBrowser ends what a browser is known for, and signs it out.
func (p *pages) forgetBrowser(w http.ResponseWriter, r *http.Request, user account.User) error {
	if isOfAnother(r, user.ID) {
		return site.Redirect(accountBase)
	}
	form, err := site.ReadForm(w, r, "browser")
	if err != nil {
		return err
	}
	id, err := uuid.Parse(form["browser"])
	if err != nil {
		return site.ErrBadForm
	}
	key, _ := p.sessionKey(r)
	return cmp.Or[error](p.Accounts.ForgetBrowser(r.Context(), key, id), site.Redirect(accountBase+"?forgotten"))
}

// showAccount lists the user's connections and known browsers.
func (p *pages) showAccount(w http.ResponseWriter, r *http.Request, user account.User) error {
	list, err := p.connections(r, user)
	if err != nil {
		return err
	}
	browsers, err := p.Accounts.Browsers(r.Context(), user.ID, knownKeys(r)...)
	if err != nil {
		return err
	}
	for i := range browsers { // days are those of the user's calendar
		browsers[i].SignedInAt = browsers[i].SignedInAt.In(user.Zone())
		if first := browsers[i].FirstAt; first != nil {
			*first = first.In(user.Zone())
		}
	}
	gone := ""                                                                               // the name of the partner that was just disconnected, unless it is connected again
	if client, malformed := uuid.Parse(r.URL.Query().Get(goneParameter)); malformed == nil { // anyone can write a link
		switch c, err := p.OAuth.Connection(r.Context(), user.ID, client); {
		case err == nil && c.State == oauth.Disconnected:
			gone = c.Partner.Name
		case err != nil && !errors.Is(err, oauth.ErrNotConnected):
			return err
		}
	}
	p.site.Write(w, r, http.StatusOK, "account", view{
		Base: accountBase, User: user.ID.String(), Email: user.Email, Connections: list, Browsers: browsers, Gone: gone, News: r.URL.RawQuery, Copy: p.Copy != nil,
	})
	return nil
}

// copyPath is that of the copy of the user's data.
const copyPath = accountBase + "/copy"

// sendCopy sends a copy of the user's data.
func (p *pages) sendCopy(w http.ResponseWriter, r *http.Request, user account.User) error {
	ctx, cancel := work.Within(r.Context(), work.CallerOf(r.Context()), p.Limits.Batch)
	defer cancel()
	return site.Attach(ctx, w, "my-data.json", "application/json", func(file io.Writer) error { return p.Copy(ctx, file, user) })
}

// goneParameter of the list has the client that was just disconnected.
const goneParameter = "disconnected"

// showDisconnect asks for confirmation and says what ends. Without a connection it redirects to the list.
func (p *pages) showDisconnect(w http.ResponseWriter, r *http.Request, shown connection) error {
	if shown.State == "" {
		return site.Redirect(accountBase)
	}
	p.site.Write(w, r, http.StatusOK, "disconnect", view{Base: accountBase, Partner: shown.Partner, Connections: []connection{shown}, User: shown.UserID.String()})
	return nil
}

// disconnect ends the connection (specification 3.2). A form that is submitted twice changes nothing the second time.
func (p *pages) disconnect(_ http.ResponseWriter, r *http.Request, shown connection) error {
	if isOfAnother(r, shown.UserID) {
		return site.Redirect(accountBase)
	}
	err := p.OAuth.DisconnectUser(r.Context(), shown.UserID, shown.Partner.ClientID)
	if errors.Is(err, oauth.ErrNotConnected) {
		return site.ErrNotFound
	}
	if err != nil {
		return err
	}
	return site.Redirect(accountBase + "?" + goneParameter + "=" + shown.Partner.ClientID.String())
}

// isOfAnother reports whether a form is of a page that was shown to another user. It is in the query: an unknown field is refused.
func isOfAnother(r *http.Request, user uuid.UUID) bool {
	return cmp.Or(r.URL.Query().Get("user"), user.String()) != user.String()
}

// connectionOf returns the connection between the signed-in user and the client that the path names. Without one it has no state.
func (p *pages) connectionOf(r *http.Request) (shown connection, err error) {
	user, err := p.signedIn(r)
	if err != nil {
		return shown, err
	}
	shown.UserID = user.ID
	if shown.Partner.ClientID, err = site.PathID(r, "client"); err != nil {
		return shown, err
	}
	list, err := p.connections(r, user)
	if i := slices.IndexFunc(list, func(c connection) bool { return c.Partner.ClientID == shown.Partner.ClientID }); i >= 0 {
		shown = list[i]
	}
	return shown, err
}

// accountBase is the prefix of the paths of the account pages.
const accountBase = "/account"

// signInLifetime is how long the browser keeps the id of a sign-in. It is longer than a code is valid, so that a
// page can say that a code was entered too late.
const signInLifetime = 30 * time.Minute

// accountSignIn is the sign-in to the account pages that is under way in this browser, or a new one.
func (p *pages) accountSignIn(r *http.Request) (signIn, error) {
	if _, err := p.session(r); err == nil {
		return signIn{}, site.Redirect(accountBase)
	} else if !errors.Is(err, account.ErrNoSession) {
		return signIn{}, err
	}
	id, begun := p.Accounts.OpenSignIn(cookieText(r, signInCookie))
	if !begun {
		id = uuid.New()
	}
	sealed, err := p.Accounts.SealSignIn(id)
	return signIn{
		id: id, begun: begun, page: "account-sign-in",
		view:     view{Base: accountBase, Minutes: minutes(account.SessionLifetime)},
		remember: func(w http.ResponseWriter) { setCookie(w, signInCookie, sealed, signInLifetime) },
		finish: func(w http.ResponseWriter, r *http.Request, verified account.Verified) error {
			key, err := p.Accounts.StartSession(r.Context(), id, verified)
			if err != nil {
				return err
			}
			session, err := p.Accounts.SealSession(key)
			if err != nil {
				return err
			}
			if err := p.remember(w, r, id, verified.Browser); err != nil && !errors.Is(err, account.ErrNoSignIn) { // which has ended the session, too
				return err
			}
			dropCookie(w, signInCookie) // last, with the session: without them the same code completes the rest
			setCookie(w, sessionCookie, session, account.SessionLifetime)
			return site.Redirect(accountBase)
		},
	}, err
}

// signOut ends the session, if there still is one.
func (p *pages) signOut(w http.ResponseWriter, r *http.Request) error {
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	if key, ok := p.sessionKey(r); ok {
		if err := p.Accounts.EndSession(r.Context(), key); err != nil {
			return err
		}
	}
	dropCookie(w, sessionCookie)
	dropCookie(w, typedCookie)
	setCookieAt(w, accountBase, typedCookie, "", -time.Second)
	return site.Redirect(accountBase + "/sign-in?signed-out")
}

// sessionKey reads the key of the session from its cookie.
func (p *pages) sessionKey(r *http.Request) (key account.SessionKey, ok bool) {
	return p.Accounts.OpenSession(cookieText(r, sessionCookie))
}

// session returns the user who is signed in. Error: account.ErrNoSession.
func (p *pages) session(r *http.Request) (account.User, error) {
	key, ok := p.sessionKey(r)
	if !ok {
		return account.User{}, account.ErrNoSession
	}
	return p.Accounts.GetSession(r.Context(), key)
}

// signedIn returns the user who is signed in. Without one it redirects to the sign-in, which says why unless the user has
// just come to the first page.
func (p *pages) signedIn(r *http.Request) (account.User, error) {
	user, err := p.session(r)
	switch {
	case !errors.Is(err, account.ErrNoSession):
		return user, err
	case r.URL.Path == accountBase:
		return user, site.Redirect(accountBase + "/sign-in")
	}
	return user, site.Redirect(accountBase + "/sign-in?ended")
}

// receipt is what the link of a receipt is about. Its page needs no session and does not show the user's address.
type receipt struct {
	account.Receipt
	view view
}

// receiptOf finds the receipt that the path names, and what it is about. It changes nothing, because programs that look at emails open links,
// too. Error: account.ErrNoReceipt.
func (p *pages) receiptOf(r *http.Request) (opened receipt, err error) {
	sealed, user, err := p.Accounts.OpenReceipt(r.Context(), chi.URLParam(r, "receipt"))
	if err != nil {
		return opened, err
	}
	opened = receipt{Receipt: sealed, view: view{Base: accountBase}}
	if sealed.ClientID == uuid.Nil {
		browser, signedIn, err := p.Accounts.BrowserOfReceipt(r.Context(), sealed)
		browser.SignedInAt = browser.SignedInAt.In(user.Zone())
		opened.view.Problem, opened.view.Link = "browser", r.URL.Path
		opened.view.Browsers, opened.view.Over, opened.BrowserID = []account.Browser{browser}, !signedIn, cmp.Or(browser.ID, sealed.BrowserID)
		return opened, err
	}
	c, err := p.OAuth.Connection(r.Context(), sealed.UserID, sealed.ClientID)
	if errors.Is(err, oauth.ErrNotConnected) {
		err = account.ErrNoReceipt
	}
	c.AuthorizedAt = c.AuthorizedAt.In(user.Zone())
	opened.view.Partner = partner{Partner: c.Partner}
	opened.view.Connections = []connection{{Connection: c, Partner: opened.view.Partner, link: r.URL.Path}}
	switch {
	case c.State == oauth.Disconnected:
		opened.view.Problem, opened.view.Over = "ended", true
	case c.Version != sealed.Version:
		opened.view.Problem, opened.view.Over = "renewed", true
	}
	return opened, err
}

// showReceipt asks whether to end what the receipt is about, or says why there is nothing to end.
func (p *pages) showReceipt(w http.ResponseWriter, r *http.Request, opened receipt) error {
	name := "receipt"
	if !opened.view.Over && opened.ClientID != uuid.Nil {
		name = "disconnect"
	}
	p.site.Write(w, r, http.StatusOK, name, opened.view)
	return nil
}

// useReceipt ends what the receipt is about. A form that is submitted twice changes nothing the second time. Then the page says how it is now.
func (p *pages) useReceipt(_ http.ResponseWriter, r *http.Request, opened receipt) error {
	var err error
	switch {
	case opened.view.Over:
	case opened.ClientID == uuid.Nil:
		err = p.Accounts.EndBrowser(r.Context(), opened.Receipt)
	default:
		err = p.OAuth.DisconnectVersion(r.Context(), opened.UserID, opened.ClientID, opened.Version)
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
			err = account.ErrNoLetter
		}
		return account.Connected{
			Partner: c.Partner.Name, Version: c.Version, Live: c.State == oauth.Authorized, Scopes: c.Scopes,
			HistoryFrom: c.HistoryFrom, AuthorizedAt: c.AuthorizedAt, Browser: c.Browser, Over: c.ClientStatus == "offboarded",
		}, err
	}
}
