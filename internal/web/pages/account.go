package browser

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

// connection is a company that the user has connected, as the account pages show it.
type connection struct {
	Company  company
	State    oauth.State
	Reads    []string   // names of the scopes
	Since    time.Time  // the user's calendar day
	From     time.Time  // the first readable day
	LastRead *time.Time // the user's calendar day; nil where nothing was read yet
	Path     string     // of the page that disconnects it
}

// connections of a user. A calendar day is the user's own; where this machine does not know the time zone, being a day
// off is better than not letting the user disconnect.
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
			Company: company{Name: c.ClientName, Homepage: c.HomepageURL},
			State:   c.State,
			Reads:   c.Scopes.Names(),
			Since:   c.AuthorizedAt.In(zone),
			From:    c.HistoryFrom,
			Path:    disconnectPath(c.ClientID),
		}
		if c.LastReadAt != nil {
			day := c.LastReadAt.In(zone)
			list[i].LastRead = &day
		}
	}
	return list, nil
}

func disconnectPath(client uuid.UUID) string {
	return accountBase + "/connections/" + client.String() + "/disconnect"
}

// showAccount lists the companies that the user has connected.
func (p *pages) showAccount(w http.ResponseWriter, r *http.Request) error {
	user, ok, err := p.signedIn(w, r)
	if !ok {
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

// showDisconnect says what ends, before it does. Whoever comes back after it is led to the list.
func (p *pages) showDisconnect(w http.ResponseWriter, r *http.Request) error {
	user, ok, err := p.signedIn(w, r)
	if !ok {
		return err
	}
	client, err := clientOf(r)
	if err != nil {
		return err
	}
	list, err := p.connections(r, user)
	if err != nil {
		return err
	}
	i := find(list, client)
	if i < 0 {
		seeOther(w, accountBase)
		return nil
	}
	p.site.write(w, http.StatusOK, "disconnect", view{
		Base: accountBase, Company: list[i].Company, Connections: list[i : i+1],
	})
	return nil
}

// disconnect ends the connection (specification 3.2). Sent twice, the form does the same again, which is nothing.
func (p *pages) disconnect(w http.ResponseWriter, r *http.Request) error {
	user, ok, err := p.signedIn(w, r)
	if !ok {
		return err
	}
	client, err := clientOf(r)
	if err != nil {
		return err
	}
	if _, err := readForm(w, r); err != nil {
		return err
	}
	list, err := p.connections(r, user)
	if err != nil {
		return err
	}
	err = p.OAuth.DisconnectUser(r.Context(), user.ID, client)
	if errors.Is(err, oauth.ErrNotConnected) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	if i := find(list, client); i >= 0 {
		setCookie(w, goneCookie, []byte(list[i].Company.Name), time.Minute)
	}
	seeOther(w, accountBase)
	return nil
}

// find is the place of the client's connection in the list, -1 where it has none.
func find(list []connection, client uuid.UUID) int {
	return slices.IndexFunc(list, func(c connection) bool { return c.Path == disconnectPath(client) })
}

// clientOf is the company that the path names.
func clientOf(r *http.Request) (uuid.UUID, error) {
	text := chi.URLParam(r, "client")
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return id, errNotFound
	}
	return id, nil
}
