package partner

// This file is the whole integration: how a backend connects its users, reads their activity and receives changes. It
// uses nothing else of this package. Copy it; a comment with REPLACE marks what you must replace by your own.

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/webhook"
)

// Connector is made once for a process.
type Connector struct {
	// Client is made with connect.New. REPLACE its Store: package pgstore keeps tokens encrypted in your PostgreSQL, and
	// lets any number of servers share them.
	Client *connect.Client
	// WebhookSecret is the whsec_… that you were given with your webhook address.
	WebhookSecret string
	// PutAside keeps an event until Work gets to it, each WebhookID once. REPLACE it by an insert into a table of yours.
	PutAside func(ctx context.Context, event webhook.Event) error
	// UserOf finds the user whose connection has the grant id; empty if there is none. REPLACE it by pgstore's KeysOf.
	UserOf func(ctx context.Context, grant uuid.UUID) (user string, err error)

	mu    sync.Mutex
	begun map[string]attempt // by state. REPLACE it by your sessions, if your server is one of several
}

// attempt is one authorization in progress.
type attempt struct {
	session, user string
	connect.Authorization
}

// Begin is the button "Connect": redirect the browser to the URL of the result, with status 303. The session is that of
// the browser, and the user is the one who is signed in there. REPLACE both by those of your sign-in.
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

// Callback is your registered callback address, to which the browser returns. Redirect it afterwards, so that the code
// does not stay in the address bar. The error is connect.ErrDenied if the user refused, and connect.ErrState, without a
// user, if this browser did not begin the authorization.
func (c *Connector) Callback(ctx context.Context, session string, query url.Values) (user string, err error) {
	state := query.Get("state")
	c.mu.Lock()
	a, found := c.begun[state]
	if found = found && a.session == session; found {
		delete(c.begun, state) // it works once, whether it succeeds or not
	}
	c.mu.Unlock()
	if !found {
		return "", connect.ErrState
	}
	_, err = c.Client.Finish(ctx, a.user, a.Authorization, query)
	return a.user, err
}

// Activity is what was read of a user.
type Activity struct {
	Steps   []connectsdk.DailySteps      // a day without a record is absent, which is not zero
	Cycling []connectsdk.CyclingDay      // by day
	Rides   []connectsdk.CyclingActivity // oldest first
	Pages   int                          // of rides
}

// Read reads 31 days at most, none before the connection's HistoryFrom. It refreshes and tries again by itself. If the
// error Is connect.ErrReconnect, show the button "Connect"; otherwise log it, and try again later.
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
	seen := map[string]bool{} // a ride may come twice while data change
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

// Webhook is your webhook address: verify, put aside, respond. The work comes later, because the service waits for five
// seconds only.
func (c *Connector) Webhook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	event, err := webhook.Verify(c.WebhookSecret, r.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	if err := c.PutAside(r.Context(), event); err != nil {
		http.Error(w, "not now", http.StatusServiceUnavailable) // the service will send it again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Outcome is what became of an event.
type Outcome int

// The outcomes of Work.
const (
	Unknown  Outcome = iota // of a type that came after this code was written, or of nobody here: ignore it
	Outdated                // about an older connection than the one that is held, or one that is over: ignore it
	Ended                   // the tokens were thrown away: show the button "Connect"
	Changed                 // read the days of the event
)

// Work does what an event asks for, and returns whose event it is. REPLACE the reading: for an event that is Changed,
// call Read for its days, and store what it returns, steps and cycling by date and rides by id.
func (c *Connector) Work(ctx context.Context, event webhook.Event) (outcome Outcome, user string, err error) {
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		if user, err = c.UserOf(ctx, event.Data.GrantId); err != nil || user == "" {
			return Unknown, "", err
		}
		if news, err := c.Client.Ended(ctx, user, event.Version); !news {
			return Outdated, user, err
		}
		return Ended, user, nil
	case webhook.ActivityUpdated:
		if user, err = c.UserOf(ctx, event.Data.GrantId); err != nil || user == "" {
			return Unknown, "", err
		}
		held, err := c.Client.Connection(ctx, user)
		if errors.Is(err, connect.ErrNotConnected) {
			return Outdated, user, nil
		}
		if err != nil {
			return Unknown, user, err
		}
		version, err := strconv.ParseInt(held.Version, 10, 64)
		if held.State == connect.StateEnded || held.State == connect.StateUncertain || event.Version < version {
			return Outdated, user, err
		}
		return Changed, user, err
	default:
		return Unknown, "", nil
	}
}
