package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/work"
)

// partnerLog is a page of what was done with a partner, newest first. It names no user and no operator.
type partnerLog struct {
	aboutPartner
	Rows  []audit.Event
	Back  time.Time // where the search stopped, if the page is not full
	Pages pages
}

// ActorOf names who acted, as far as the partner knows them.
func (partnerLog) ActorOf(e audit.Event) string {
	if slices.Contains([]string{"user", "client", "system"}, e.Actor) || strings.HasPrefix(e.Actor, "partner:") {
		return e.Actor
	}
	return work.AnyOperator
}

// DetailOf returns what a change of the partner itself was about, as JSON. Other events are about users.
func (partnerLog) DetailOf(e audit.Event) string {
	if e.UserID != uuid.Nil || string(e.Detail) == "{}" {
		return ""
	}
	return string(e.Detail)
}

func (c *console) showLog(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	x := partnerLog{aboutPartner: aboutPartner{partner, "log"}}
	var next *string
	var err error
	x.Rows, next, err = page.Search(listingOf(r, firstCursor, "log"), func(before page.Key, limit int) ([]audit.Event, page.Key, error) {
		found, err := c.Audit.Search(r.Context(), audit.Filter{ClientID: partner.ID}, before, limit)
		if len(found.Events) < limit {
			x.Back = found.Next.At
		}
		return found.Events, found.Next, err
	})
	if err != nil {
		return err
	}
	x.Pages = pageLinks(r, firstCursor, next)
	return c.write(w, r, "partner-log", x)
}

// grantView is a connection of a partner, found by its grant id. It names no user.
type grantView struct {
	aboutPartner
	Query string
	Found *oauth.Connection // nil if there is none
}

func (c *console) showGrant(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "grant")
	if err != nil {
		return err
	}
	x := grantView{aboutPartner: aboutPartner{partner, "connections"}, Query: query["grant"]}
	if id, malformed := uuid.Parse(x.Query); malformed == nil {
		if x.Found, err = c.connectionOfGrant(r, partner.ID, id); err != nil {
			return err
		}
	}
	return c.write(w, r, "grant", x)
}

// connectionOfGrant returns a partner's connection with a grant id, nil if there is none.
func (c *console) connectionOfGrant(r *http.Request, partner, grant uuid.UUID) (*oauth.Connection, error) {
	user, err := c.Finder.UserOfGrant(r.Context(), partner, grant)
	if err != nil || user == uuid.Nil {
		return nil, err
	}
	connection, err := c.OAuth.Connection(r.Context(), user, partner)
	if errors.Is(err, oauth.ErrNotConnected) || err == nil && connection.GrantID != grant { // of a deleted user, or of before
		return nil, nil
	}
	return &connection, err
}
