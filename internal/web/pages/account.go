package pages

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/oauth"
)

// connection is a connection of the user as the account pages show it.
type connection struct {
	ClientID uuid.UUID
	Partner  partner
	State    oauth.State
	Reads    []string   // names of the scopes
	Since    time.Time  // the user's calendar day
	From     time.Time  // the first readable day
	LastRead *time.Time // the user's calendar day; nil if nothing was read yet
}

// Path is that of the page that disconnects the connection.
func (c connection) Path() string {
	return accountBase + "/connections/" + c.ClientID.String() + "/disconnect"
}

// connections of a user. Days are those of the user's calendar. Where this machine does not know the time zone, a day
// that is off by one is better than a user who cannot disconnect.
func (p *pages) connections(r *http.Request, user account.User) ([]connection, error) {
	found, err := p.OAuth.ConnectionsOfUser(r.Context(), user.ID)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(user.Timezone)
	if err != nil {
		zone = time.UTC
	}
	list := make([]connection, len(found))
	for i, c := range found {
		list[i] = connection{
			ClientID: c.ClientID,
			Partner:  partner{Name: c.ClientName, Homepage: c.HomepageURL},
			State:    c.State,
			Reads:    c.Scopes.Names(),
			Since:    c.AuthorizedAt.In(zone),
			From:     c.HistoryFrom,
		}
		if c.LastReadAt != nil {
			day := c.LastReadAt.In(zone)
			list[i].LastRead = &day
		}
	}
	return list, nil
}

// showAccount lists the user's connections.
func (p *pages) showAccount(w http.ResponseWriter, r *http.Request) error {
	user, err := p.signedIn(r)
	if err != nil {
		return err
	}
	list, err := p.connections(r, user)
	if err != nil {
		return err
	}
	gone := string(cookieValue(r, goneCookie))
	if gone != "" {
		dropCookie(w, goneCookie)
	}
	p.site.write(w, http.StatusOK, "account", view{Base: accountBase, Email: user.Email, Connections: list, Gone: gone})
	return nil
}

// showDisconnect asks for confirmation and says what ends. Once the connection is gone it redirects to the list.
func (p *pages) showDisconnect(w http.ResponseWriter, r *http.Request) error {
	_, _, found, err := p.connectionOf(r)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return redirect(accountBase)
	}
	p.site.write(w, http.StatusOK, "disconnect", view{Base: accountBase, Partner: found[0].Partner, Connections: found})
	return nil
}

// disconnect ends the connection (specification 3.2). A form that is submitted twice changes nothing the second time.
func (p *pages) disconnect(w http.ResponseWriter, r *http.Request) error {
	user, client, found, err := p.connectionOf(r)
	if err != nil {
		return err
	}
	if _, err := readForm(w, r); err != nil {
		return err
	}
	err = p.OAuth.DisconnectUser(r.Context(), user.ID, client)
	if errors.Is(err, oauth.ErrNotConnected) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	if len(found) > 0 {
		setCookie(w, goneCookie, []byte(found[0].Partner.Name), time.Minute)
	}
	return redirect(accountBase)
}

// connectionOf returns the user who is signed in, the client that the path names, and the connection between them if
// there is one.
func (p *pages) connectionOf(r *http.Request) (user account.User, client uuid.UUID, found []connection, err error) {
	if user, err = p.signedIn(r); err != nil {
		return user, client, nil, err
	}
	if client, err = pathID(r, "client"); err != nil {
		return user, client, nil, err
	}
	list, err := p.connections(r, user)
	return user, client, slices.DeleteFunc(list, func(c connection) bool { return c.ClientID != client }), err
}

// pathID is the id that a parameter of the path holds. Ids have one spelling.
func pathID(r *http.Request, name string) (uuid.UUID, error) {
	text := chi.URLParam(r, name)
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return id, errNotFound
	}
	return id, nil
}
