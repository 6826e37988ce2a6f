package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/foundation/page"
)

// moment is an entry of a connection's history. One of the three pointers is set.
type moment struct {
	At       time.Time
	Deed     *deed
	Event    *webhook.Event
	Adjusted *activity.Adjustment

	keys [3]page.Key // after which the history continues in the audit log, the events and the adjustments
}

// deed is an entry of the audit log.
type deed struct {
	audit.Event
	Text   string // console.did.{text}, or empty for no text
	Scopes string
	Tone   string // of its mark: good, warn, bad, or none
}

// moments returns at most limit entries of a connection's history before a key, newest first. It merges three lists, each read in the
// order of an index.
func (c *console) moments(ctx context.Context, life oauth.Connection, before [3]page.Key, limit int) ([]moment, error) {
	user, partner := life.UserID, life.Partner.ClientID
	log, err := c.Audit.Search(ctx, audit.Filter{UserID: user, ClientID: partner}, before[0], limit)
	if err != nil {
		return nil, err
	}
	events, err := c.Webhooks.EventsOf(ctx, user, partner, before[1], limit)
	if err != nil {
		return nil, err
	}
	adjustments, err := c.Activity.LatestAdjustments(ctx, user, slices.DeleteFunc(slices.Clone(datasets), func(one activity.Adjusted) bool {
		return !life.Scopes.Contains(preview.ScopeOf(one))
	}), before[2], limit)
	if err != nil {
		return nil, err
	}
	var all []moment
	for _, entry := range log.Events {
		all = append(all, moment{At: entry.At, Deed: newDeed(entry)})
	}
	for i, event := range events {
		all = append(all, moment{At: event.CreatedAt, Event: &events[i]})
	}
	for i, adjustment := range adjustments {
		all = append(all, moment{At: adjustment.CreatedAt, Adjusted: &adjustments[i]})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return b.At.Compare(a.At) })
	all = all[:min(limit, len(all))]
	keys := before
	for i := range all {
		switch m := &all[i]; {
		case m.Deed != nil:
			keys[0] = m.Deed.Key()
		case m.Event != nil:
			keys[1] = m.Event.Key()
		default:
			keys[2] = m.Adjusted.LatestKey()
		}
		all[i].keys = keys
	}
	return all, nil
}

// newDeed returns an audit entry about a connection with its text.
func newDeed(event audit.Event) *deed {
	d := &deed{Event: event, Scopes: detailOf(event).Scopes}
	switch event.Action {
	case "consent.allowed", "consent.denied", "access_token.revoked":
		d.Text = strings.ReplaceAll(event.Action, ".", "_")
	case "connection.authorized":
		d.Text, d.Tone = "authorized", "good"
	case "connection.recovered":
		d.Text, d.Tone = "recovered", "good"
	case "connection.revoked":
		d.Text, d.Tone = "revoked."+reasonOf(event), "bad"
	case "connection.disconnected":
		d.Text, d.Tone = "disconnected."+endedBy(event), "warn"
	}
	return d
}
