// Package preview tells what an act of an operator will end, delete or send, before it is done. The operator API answers with it, the
// command line asks with that answer, and the console asks with it itself, so that all three say the same.
//
// A preview changes nothing. Its counts may have changed when the act is done: the act itself says what it ended.
package preview

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/scope"
)

// CountedTo is the largest count of a user's rows. One more stands for all larger ones.
const CountedTo = 10_000

// Domains are what operators act on, with or without a preview. All of them are required.
type Domains struct {
	Accounts *account.Accounts
	Activity *activity.Store
	Audit    *audit.Log
	Clients  *client.Registry
	Finder   lookup.Finder
	OAuth    *oauth.Server
	Portal   *portal.Portal
	Usage    *usage.Usage
	Webhooks *webhook.Webhooks
}

// Resume replaces the secrets of a client and of its webhook, if it has one, at once, and then enables the client. Until then it is as it was, so
// that a repetition is safe. signing is empty without a webhook. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded,
// refusal.OverBudget.
func (d Domains) Resume(ctx context.Context, clientID uuid.UUID) (secret, signing string, err error) {
	_, none := d.Webhooks.Endpoint(ctx, clientID)
	replaced, err := d.Clients.RotateSecret(ctx, clientID, 0)
	if err != nil {
		return "", "", err
	}
	if !errors.Is(none, webhook.ErrNoEndpoint) {
		if signing, err = d.Webhooks.RotateSecret(ctx, clientID, 0, nil); err != nil && !errors.Is(err, webhook.ErrNoEndpoint) { // removed since
			return "", "", err
		}
	}
	return replaced.Secret, signing, d.Clients.Enable(ctx, clientID)
}

// WriteCopy writes a copy of all data of a user to w, see [lookup.Finder.WriteCopy]. The audit log has the actor of ctx before the first byte is
// written; by names the interface.
func (d Domains) WriteCopy(ctx context.Context, w io.Writer, user account.User, by string) error {
	if err := d.Audit.RecordCopy(ctx, by, user.ID); err != nil {
		return err
	}
	return d.Finder.WriteCopy(ctx, w, user.ID, d.Accounts.AddressKeys(user.Email))
}

// User is what a new address of a user, or the deletion of the user, ends. The connections and the stored activity end by a deletion alone.
type User struct {
	account.Endings
	Requests    int64 // undecided ones
	Connections int   // those that are not disconnected
	Stored      activity.Amount
}

// EffectsOnUser returns the preview of an act on a user. Error: refusal.ErrUserNotFound.
func (d Domains) EffectsOnUser(ctx context.Context, user account.User) (p User, err error) {
	if p.Endings, err = d.Accounts.CountEndings(ctx, user); err != nil {
		return p, err
	}
	if p.Requests, err = d.OAuth.CountRequests(ctx, user.ID); err != nil {
		return p, err
	}
	connections, err := d.OAuth.ConnectionsOfUser(ctx, user.ID)
	if err != nil {
		return p, err
	}
	p.Connections = len(connections)
	p.Stored, err = d.Activity.Count(ctx, user.ID, CountedTo+1)
	return p, err
}

// Correction is what becomes of a day by a correction that is made or removed.
type Correction struct {
	Before, After activity.Day
	Readers       int // companies that can read the date now
}

// readers have the scope that reads the total of each dataset, and the read.
var readers = map[activity.Adjusted]struct {
	scope scope.Set
	read  activity.Dataset
}{
	activity.AdjustedSteps:   {scope.DailySteps, activity.DatasetDailySteps},
	activity.AdjustedCycling: {scope.CyclingDaily, activity.DatasetCyclingDaily},
}

// ScopeOf returns the scope that reads the total of a dataset.
func ScopeOf(dataset activity.Adjusted) scope.Set { return readers[dataset].scope }

// EffectsOfCorrection returns the preview of a change of a user's day by delta.
func (d Domains) EffectsOfCorrection(ctx context.Context, user account.User, dataset activity.Adjusted, date time.Time, delta int) (p Correction, err error) {
	if p.Before, err = d.Activity.Day(ctx, dataset, user.ID, date); err != nil {
		return p, err
	}
	p.After = p.Before.With(delta)
	connections, err := d.OAuth.ConnectionsOfUser(ctx, user.ID)
	for _, connection := range connections {
		reader := activity.Reader{HistoryFrom: connection.HistoryFrom, RegisteredOn: user.RegisteredOn}
		if connection.State == oauth.Authorized && connection.ClientStatus == string(client.Active) &&
			connection.Scopes.Contains(readers[dataset].scope) && !date.Before(reader.FirstDate(readers[dataset].read)) {
			p.Readers++
		}
	}
	return p, err
}

// Event is what becomes of the event about an end.
type Event string

// Events.
const (
	Sent    Event = "sent"    // to the webhook
	Waits   Event = "waits"   // because the webhook is paused or the client is disabled
	Stopped Event = "stopped" // not sent, because the webhook was
	NoEvent Event = "none"    // the client has no webhook
)

// EventTo returns what becomes of an event for a client.
func (d Domains) EventTo(ctx context.Context, clientID uuid.UUID) (Event, error) {
	return eventTo(d.Webhooks.Endpoint(ctx, clientID))
}

// eventTo returns what becomes of an event for a client with this endpoint, or with the error that there is none.
func eventTo(endpoint webhook.Endpoint, err error) (Event, error) {
	switch {
	case errors.Is(err, webhook.ErrNoEndpoint):
		return NoEvent, nil
	case err != nil:
		return "", err
	case !endpoint.StoppedAt.IsZero():
		return Stopped, nil
	case endpoint.ClientStatus == string(client.Offboarded):
		return NoEvent, nil
	case !endpoint.PausedAt.IsZero() || endpoint.ClientStatus == string(client.Disabled):
		return Waits, nil
	}
	return Sent, nil
}

// Client is what an act on a client, its webhook or its pages ends, locks out, drops or sends.
type Client struct {
	Connections     usage.Connections
	Waiting, Failed int   // events, each up to webhook.CountBound and one
	Event           Event // what becomes of an event that is written or replayed now
	Links, Sessions int   // of its pages: links that nobody has opened, and sessions

	// Until when secrets before the present ones work, and those of webhooks sign; zero: none does. A new secret ends them at once.
	OlderSecret, OlderWebhookSecret time.Time
}

// EffectsOnClient returns the preview of an act on a client.
func (d Domains) EffectsOnClient(ctx context.Context, c client.Client) (p Client, err error) {
	if p.Connections, err = d.Usage.Connections(ctx, c.ID); err != nil {
		return p, err
	}
	if p.Waiting, p.Failed, err = d.Webhooks.Waiting(ctx, c.ID); err != nil {
		return p, err
	}
	endpoint, err := d.Webhooks.Endpoint(ctx, c.ID)
	if p.Event, err = eventTo(endpoint, err); err != nil {
		return p, err
	}
	p.OlderSecret, p.OlderWebhookSecret = c.OverlapUntil, endpoint.RotatingUntil
	sessions, err := d.Portal.Sessions(ctx, c.ID)
	for _, session := range sessions {
		if session.OpenedAt.IsZero() {
			p.Links++
		} else {
			p.Sessions++
		}
	}
	return p, err
}
