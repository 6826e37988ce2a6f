package console

import (
	"net/http"
	"net/url"

	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/text"
	"github.com/google/uuid"
)

const usersPath = Path + "/users"

// userList is a page of users.
type userList struct {
	Rows  []account.User
	Pages pages
}

// listUsers lists all users. until 1.3.0: the search of 1.0.0 leads to the search box.
func (c *console) listUsers(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, "q")
	if err != nil {
		return err
	}
	if query["q"] != "" {
		return site.Redirect(toFind(query["q"]))
	}
	var list userList
	list.Rows, list.Pages, err = listing(r, firstCursor, "users", func(after page.Key, limit int) ([]account.User, error) {
		return c.Accounts.ListUsers(r.Context(), after.ID, int32(limit))
	}, func(user account.User) page.Key { return page.Key{ID: user.ID} })
	if err != nil {
		return err
	}
	return c.write(w, r, "users", list)
}

func userPath(id uuid.UUID) string { return usersPath + "/" + id.String() }

// userOf returns the user in the path.
func (c *console) userOf(r *http.Request) (account.User, error) {
	id, err := site.PathID(r, "user")
	if err != nil {
		return account.User{}, err
	}
	return c.Accounts.GetUser(r.Context(), id)
}

// userView is a user with connections and corrections.
type userView struct {
	account.User
	Connections     []oauth.Connection
	MoreConnections pages
	Corrections     []activity.Adjustment // newest first
	MoreCorrections pages
	Month           month
	SignIns         account.SignInLog
}

// mostSignIns is how many events a page shows.
const mostSignIns = 30

// signInsOf returns what happened last to the sign-ins of an address. The audit log has who looks at it.
func (c *console) signInsOf(r *http.Request, email string) (account.SignInLog, error) {
	log, err := c.Accounts.SignIns(r.Context(), email)
	if err == nil {
		err = c.Audit.RecordSignIns(r.Context(), "console", log.UserID)
	}
	log.Events = log.Events[:min(len(log.Events), mostSignIns)]
	return log, err
}

func (c *console) showUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	query, err := parseQuery(r, secondCursor, "month")
	if err != nil {
		return err
	}
	x := userView{User: user}
	if x.SignIns, err = c.signInsOf(r, user.Email); err != nil {
		return err
	}
	if x.Month, err = c.monthOf(r, user, query["month"]); err != nil {
		return err
	}
	x.Connections, x.MoreConnections, err = listing(r, firstCursor, "connections", func(after page.Key, limit int) ([]oauth.Connection, error) {
		return c.OAuth.Connections(r.Context(), oauth.Filter{UserID: &user.ID}, after, limit)
	}, oauth.Connection.Key)
	if err != nil {
		return err
	}
	// The domain sorts them by the partner's id, which means nothing to people.
	text.Sort(x.Connections, func(c oauth.Connection) string { return c.Partner.Name })
	x.Corrections, x.MoreCorrections, err = listing(r, secondCursor, "corrections", func(after page.Key, limit int) ([]activity.Adjustment, error) {
		return c.Activity.LatestAdjustments(r.Context(), user.ID, datasets, after, limit)
	}, activity.Adjustment.LatestKey)
	if err != nil {
		return err
	}
	return c.write(w, r, "user", x)
}

const findPath = Path + "/find"

// findView is what a text names.
type findView struct {
	Query   string
	Rows    []lookup.Found
	Address bool              // it may be an address, which no user has
	SignIns account.SignInLog // of that address
}

// PathOf returns the page of what was found.
func (v findView) PathOf(match lookup.Found) string {
	partner := partnersPath + "/" + match.ClientID.String()
	switch match.Kind {
	case lookup.User:
		return userPath(match.UserID)
	case lookup.Connection:
		return connectionPath(match.UserID, match.ClientID)
	case lookup.Request:
		return partner + "/refused?" + url.Values{"request": {v.Query}}.Encode()
	case lookup.Event:
		if match.ClientID == webhook.Operator { // it has no pages of a partner, and its user may be deleted
			return auditPath + "?user=" + match.UserID.String()
		}
		return partner + "/webhooks/" + match.EventID.String()
	case lookup.Client:
	}
	return partner
}

// find leads to what the search box names, or lists it. Of an address that no user has it tells what happened to sign-ins.
func (c *console) find(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, "q")
	if err != nil {
		return err
	}
	x := findView{Query: query["q"]}
	if x.Rows, err = c.Finder.Find(r.Context(), x.Query); err != nil {
		return err
	}
	if len(x.Rows) == 1 {
		return site.Redirect(x.PathOf(x.Rows[0]))
	}
	if x.Address = len(x.Rows) == 0 && text.IsAddress(x.Query); x.Address {
		if x.SignIns, err = c.signInsOf(r, x.Query); err != nil {
			return err
		}
	}
	return c.write(w, r, "find", x)
}

// toFind returns the address that finds a text.
func toFind(text string) string { return findPath + "?" + url.Values{"q": {text}}.Encode() }
