package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/oauth"
	"connect-svc/internal/page"
	"connect-svc/internal/refusal"
	"connect-svc/internal/web/site"
)

const usersPath = Path + "/users"

func (c *console) routeUsers(r chi.Router) {
	const user = usersPath + "/{user}"
	r.Get(usersPath, c.page(c.listUsers))
	r.Get(user, c.page(site.Given(c.userOf, c.showUser)))
	routeAct(c, r, user+"/change", c.userOf, c.askChangeUser, c.changeUser)
	routeAct(c, r, user+"/lift-limits", c.userOf, c.confirmLiftLimits, site.Confirmed(c.liftLimits))
	routeAct(c, r, user+"/delete", c.userOf, c.confirmDeleteUser, site.Confirmed(c.deleteUser))
}

// userList is a page of users, or a search without a result.
type userList struct {
	Query    string
	NotFound bool
	Rows     []account.User
	Pages    pages
}

// listUsers lists all users. A search redirects to the user of an address or id, or to the connection of a grant.
func (c *console) listUsers(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, "q")
	if err != nil {
		return err
	}
	list := userList{Query: query["q"]}
	if list.Query != "" {
		path, err := c.find(r.Context(), list.Query)
		if err == nil {
			return site.Redirect(path)
		} else if !errors.Is(err, refusal.ErrUserNotFound) && !errors.Is(err, oauth.ErrNotConnected) {
			return err
		}
		list.NotFound = true
		return c.write(w, r, "users", list)
	}
	list.Rows, list.Pages, err = listing(r, firstCursor, "users", func(after page.Key, limit int) ([]account.User, error) {
		return c.Accounts.ListUsers(r.Context(), after.ID, int32(limit))
	}, func(user account.User) page.Key { return page.Key{ID: user.ID} })
	if err != nil {
		return err
	}
	return c.write(w, r, "users", list)
}

// find returns the path for an address, a user's id or a grant. Errors: refusal.ErrUserNotFound, oauth.ErrNotConnected.
func (c *console) find(ctx context.Context, text string) (path string, err error) {
	id, err := uuid.Parse(text)
	if err != nil {
		found, err := c.Accounts.FindUser(ctx, text)
		return userPath(found.ID), err
	}
	_, err = c.Accounts.GetUser(ctx, id)
	if errors.Is(err, refusal.ErrUserNotFound) {
		user, client, err := c.OAuth.FindGrant(ctx, id)
		return connectionPath(user, client), err
	}
	return userPath(id), err
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

// signInsOf returns what happened last to the sign-ins of an address.
func (c *console) signInsOf(r *http.Request, email string) (account.SignInLog, error) {
	found, err := c.Accounts.SignIns(r.Context(), email)
	found.Events = found.Events[:min(len(found.Events), mostSignIns)]
	return found, err
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
	slices.SortStableFunc(x.Connections, func(a, b oauth.Connection) int {
		return cmp.Compare(strings.ToLower(a.Partner.Name), strings.ToLower(b.Partner.Name))
	})
	x.Corrections, x.MoreCorrections, err = listing(r, secondCursor, "corrections", func(after page.Key, limit int) ([]activity.Adjustment, error) {
		return c.Activity.LatestAdjustments(r.Context(), user.ID, datasets, after, limit)
	}, activity.Adjustment.LatestKey)
	if err != nil {
		return err
	}
	return c.write(w, r, "user", x)
}
