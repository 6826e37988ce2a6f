package partner

// This file is the whole integration: what a backend does to connect its users, to read, and to hear of changes. It
// needs nothing of this package but itself. Copy it; what you must replace by your own says REPLACE.

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
	// PutAside keeps an event until Work comes to it, each WebhookID once. REPLACE it by an insert into a table of yours.
	PutAside func(ctx context.Context, event webhook.Event) error
	// UserOf finds whose connection has the grant id, empty for nobody's. REPLACE it by pgstore's KeysOf.
	UserOf func(ctx context.Context, grant uuid.UUID) (user string, err error)

	mu    sync.Mutex
	begun map[string]attempt // by state. REPLACE it by your sessions, if your server is one of several
}

// attempt is one authorization under way.
type attempt struct {
	session, user string
	connect.Authorization
}

// Begin is the button "Connect". Redirect the browser to the URL of what it returns, with status 303. The session is
// that of the browser, and the user the one who is signed in there. REPLACE both by what your sign-in knows.
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

// Callback is your registered callback address: the browser came back. Afterwards redirect it, so that the code does not
// stay in the address bar. The error is connect.ErrDenied if the user said no, and connect.ErrState if nobody asked this
// browser; then there is no user.
func (c *Connector) Callback(ctx context.Context, session string, query url.Values) (user string, err error) {
	state := query.Get("state")
	c.mu.Lock()
	a, found := c.begun[state]
	if found = found && a.session == session; found {
		delete(c.begun, state) // it works once, whatever comes of it
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
func (c *Connector) Read(ctx context.Context, user string, from, to connectsdk.Date) (a Activity, err error) {
	steps, err := c.Client.DailySteps(ctx, user, from, to)
	if err != nil {
		return a, err
	}
	cycling, err := c.Client.CyclingDaily(ctx, user, from, to)
	if err != nil {
		return a, err
	}
	a.Steps, a.Cycling = steps.Data, cycling.Data
	seen := map[string]bool{} // a ride may come twice while data change: its id tells
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

// Webhook is your webhook address: verify, put aside, answer. The work comes later, for the service waits five seconds.
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
		http.Error(w, "not now", http.StatusServiceUnavailable) // it will come again
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

// Work does what an event asks for, and tells whose it was. REPLACE the reading: call Read for the days of an event that
// is Changed, and store what it gives by date, and rides by id.
func (c *Connector) Work(ctx context.Context, event webhook.Event) (Outcome, string, error) {
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		user, err := c.UserOf(ctx, event.Data.GrantId)
		if err != nil || user == "" {
			return Unknown, "", err
		}
		news, err := c.Client.Ended(ctx, user, event.Version)
		if !news {
			return Outdated, user, err
		}
		return Ended, user, err
	case webhook.ActivityUpdated:
		user, err := c.UserOf(ctx, event.Data.GrantId)
		if err != nil || user == "" {
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
