package partner

// This file connects a backend's users and reads their activity. It uses nothing else of this package. Copy it; comments with REPLACE
// mark the parts that you must replace by your own. For webhooks copy package connect.invalid/connect-go/examples/webhooks.

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"sync"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// Connector connects users. Make one for a process.
type Connector struct {
	// Client is made with connect.New. REPLACE its Store: package pgstore keeps tokens encrypted in your PostgreSQL, and
	// lets any number of servers share them.
	Client *connect.Client

	mu    sync.Mutex
	begun map[string]attempt // by state. REPLACE it by your sessions, if your server is one of several
}

// attempt is one authorization in progress.
type attempt struct {
	session, user string
	connect.Authorization
}

// Begin handles the button "Connect": redirect the browser to the returned URL, with status 303. session identifies the browser, and
// user is signed in there. REPLACE both by those of your sign-in.
func (c *Connector) Begin(session, user string) connect.Authorization {
	a := attempt{session, user, c.Client.Begin()}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.begun, func(_ string, old attempt) bool { return time.Now().After(old.ExpiresAt) })
	if c.begun == nil {
		c.begun = map[string]attempt{}
	}
	c.begun[a.State] = a
	return a.Authorization
}

// Callback handles your registered callback address, to which the browser returns. Redirect the browser afterwards, so that the code
// does not stay in the address bar. The error is connect.ErrDenied if the user refused, and connect.ErrState if this browser did not begin
// the authorization, or another user is signed in there by now.
func (c *Connector) Callback(ctx context.Context, session, user string, query url.Values) error {
	state := query.Get("state")
	c.mu.Lock()
	a, found := c.begun[state]
	if found = found && a.session == session && a.user == user; found {
		delete(c.begun, state) // it works once, whether it succeeds or not
	}
	c.mu.Unlock()
	if !found {
		return connect.ErrState
	}
	connection, err := c.Client.Finish(ctx, user, a.Authorization, query)
	if err == nil && len(connection.FormerGrants) > 0 {
		_ = c.Client.DisconnectFormer(ctx, user) // of another account; what could not be ended ends with the next one, or Disconnect
	}
	return err
}

// Disconnect handles the button "Disconnect". If another of your users has connected the same account since, theirs stays.
func (c *Connector) Disconnect(ctx context.Context, user string) error {
	err := c.Client.Disconnect(ctx, user)
	if shared := (*connect.SharedError)(nil); errors.As(err, &shared) {
		return c.Client.Forget(ctx, user)
	}
	return err
}

// Activity of a user.
type Activity struct {
	Steps   []connectsdk.DailySteps      // a day without a record is absent, and not zero
	Cycling []connectsdk.CyclingDay      // by day
	Rides   []connectsdk.CyclingActivity // oldest first
	Pages   int                          // of rides
}

// Read reads at most 31 days, none before the connection's HistoryFrom. It refreshes and retries by itself. If the error Is
// connect.ErrReconnect, show the button "Connect"; otherwise log the error and try again later.
func (c *Connector) Read(ctx context.Context, user string, from, to connectsdk.CalendarDate) (a Activity, err error) {
	steps, err := c.Client.DailySteps(ctx, user, from, to)
	if err != nil {
		return a, err
	}
	cycling, err := c.Client.CyclingDaily(ctx, user, from, to)
	if err != nil {
		return a, err
	}
	a.Steps, a.Cycling = steps.Data, cycling.Data
	seen := map[string]bool{} // a ride can appear twice if data change
	for page, err := range c.Client.CyclingPages(ctx, user, from, to, pageSize) {
		if err != nil {
			return a, err
		}
		a.Pages++
		for _, ride := range page.Data {
			if !seen[ride.Id] {
				seen[ride.Id] = true
				a.Rides = append(a.Rides, ride)
			}
		}
	}
	return a, nil
}

// pageSize is small so that the demo shows pages. REPLACE it by 500.
const pageSize = 5
