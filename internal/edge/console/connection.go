package console

import (
	"cmp"
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

func connectionPath(user, client uuid.UUID) string {
	return userPath(user) + "/connections/" + client.String()
}

// connection is a connection with its user.
type connection struct {
	User account.User
	oauth.Connection
}

func (c connection) path() string { return connectionPath(c.User.ID, c.Partner.ClientID) }

// connectionOf returns the connection in the path.
func (c *console) connectionOf(r *http.Request) (shown connection, err error) {
	if shown.User, err = c.userOf(r); err != nil {
		return shown, err
	}
	partner, err := site.PathID(r, "client")
	if err != nil {
		return shown, err
	}
	shown.Connection, err = c.OAuth.Connection(r.Context(), shown.User.ID, partner)
	return shown, err
}

// connectionView shows a connection and its history.
type connectionView struct {
	connection
	Why   template.HTML // the connection works or does not
	Days  []moment      // the history, newest first
	Pages pages
}

func (c *console) showConnection(w http.ResponseWriter, r *http.Request, shown connection) error {
	_, err := parseQuery(r)
	if err != nil {
		return err
	}
	x := connectionView{connection: shown}
	x.Days, x.Pages, err = listing(r, firstCursor, "life", func(after [3]page.Key, limit int) ([]moment, error) {
		return c.moments(r.Context(), shown.Connection, slices.DeleteFunc(slices.Clone(datasets), func(dataset activity.Adjusted) bool {
			return !shown.Scopes.Contains(preview.ScopeOf(dataset))
		}), after, limit)
	}, func(m moment) [3]page.Key { return m.keys })
	if err != nil {
		return err
	}
	latest := x.Days
	if x.Pages.First != "" {
		latest = nil // this page has older ones
	}
	if x.Why, err = c.why(r.Context(), c.writer(r), shown.Connection, latest); err != nil {
		return err
	}
	x.Days = fold(x.Days)
	return c.write(w, r, "connection", x)
}

// why explains why a connection works or does not. latest holds its latest moments, if they were already read.
func (c *console) why(ctx context.Context, words writer, life oauth.Connection, latest []moment) (template.HTML, error) {
	say := func(key string, values ...any) template.HTML {
		values = append(values, "Partner", isolated(life.Partner.Name))
		return words.HTML("console.why."+key, values...)
	}
	switch life.State {
	case oauth.Lapsed:
		last, key := life.LastRefreshAt, "lapsed"
		if life.Refreshes == 0 {
			last, key = life.AuthorizedAt, "lapsed_unused"
		}
		unused := life.RefreshDeadline.Sub(last)
		if unused == 0 { // oauth.Replay has begun it, and nobody has refreshed it
			return say("reconciled", "Since", instant(last)), nil
		}
		span := words.amount("whole_days", int(unused.Round(24*time.Hour).Hours()/24))
		if hours := int(unused.Round(time.Hour).Hours()); hours < 48 {
			span = words.amount("hours", hours)
		}
		return say(key, "Time", span, "Last", instant(last), "Since", instant(life.RefreshDeadline)), nil
	case oauth.Revoked, oauth.Disconnected:
		end, err := c.endOf(ctx, life, latest, "connection."+string(life.State))
		if err != nil || end == nil {
			return say(string(life.State) + "_long_ago"), err
		}
		by := map[oauth.State]func(audit.Event) string{oauth.Revoked: reasonOf, oauth.Disconnected: endedBy}[life.State]
		return say(string(life.State)+"."+by(*end), "Since", instant(end.At), "Actor", end.Actor), nil
	case oauth.Authorized:
	}
	switch {
	case life.ClientStatus != string(client.Active):
		since, err := c.lastOf(ctx, audit.Filter{ClientID: life.Partner.ClientID, Itself: true, Action: "client." + life.ClientStatus})
		if err != nil || since == nil {
			return say("disabled_long_ago"), err
		}
		key := map[string]string{string(client.Offboarded): "disconnected.offboarded"}[life.ClientStatus] // it has not been ended yet
		return say(cmp.Or(key, "disabled"), "Since", instant(since.At)), nil
	case life.MissingScopes != 0:
		return say("lost_scopes", "Scopes", life.MissingScopes.String()), nil
	case len(life.Reads) == 0:
		return say("unread", "Since", instant(life.AuthorizedAt)), nil
	}
	return say("authorized", "Since", instant(life.AuthorizedAt), "Read", instant(life.Reads[0].Hour())), nil
}

// endOf returns the audit entry of the act that ended a connection, or nil if the log no longer has it.
func (c *console) endOf(ctx context.Context, life oauth.Connection, latest []moment, action string) (*audit.Event, error) {
	for _, m := range latest {
		if m.Deed != nil && m.Deed.Action == action {
			return &m.Deed.Event, nil
		}
	}
	return c.lastOf(ctx, audit.Filter{UserID: life.UserID, ClientID: life.Partner.ClientID, Action: action})
}

// lastOf returns the newest entry that matches a filter, as it was acted, or nil if one page of the search finds none.
func (c *console) lastOf(ctx context.Context, filter audit.Filter) (*audit.Event, error) {
	entries, err := c.Audit.Search(ctx, filter, page.Key{}, 1)
	if err != nil || len(entries.Events) == 0 {
		return nil, err
	}
	return new(asActed(entries.Events[0])), nil
}

// reasonOf returns why a connection was revoked.
func reasonOf(event audit.Event) string {
	if detailOf(event).Reason == "refresh_token_replayed" {
		return "replayed"
	}
	if event.Actor == "client" {
		return "by_partner"
	}
	return "by_operator"
}

// endedBy returns who or what disconnected a connection.
func endedBy(event audit.Event) string {
	switch {
	case detailOf(event).Reason == "client_offboarded":
		return "offboarded"
	case event.Actor == "user":
		return "by_user"
	case event.Actor == "client":
		return "by_partner"
	case event.Actor == work.AnyOperator:
		return "by_operator"
	}
	return "by_name"
}

// detail is the detail of an audit entry about a connection.
type detail struct {
	Reason string `json:"reason"`
	By     string `json:"by"` // who acted, of an entry that was replayed after a restore
	Scopes string `json:"scopes"`
}

func detailOf(event audit.Event) (d detail) {
	_ = json.Unmarshal(event.Detail, &d) // missing fields stay empty
	return d
}

// asActed returns an event with the actor of the act, whoever has replayed it.
func asActed(event audit.Event) audit.Event {
	event.Actor = cmp.Or(detailOf(event).By, event.Actor)
	return event
}

// isolated returns a name whose text direction does not affect the text around it.
func isolated(name string) template.HTML {
	return "<bdi>" + template.HTML(template.HTMLEscapeString(name)) + "</bdi>" //nolint:gosec // escaped
}

// notified has the texts about the event of a disconnection.
var notified = map[preview.Event]string{preview.Sent: "notified", preview.Waits: "paused", preview.Stopped: "stopped", preview.NoEvent: "not_notified"}

func (c *console) confirmDisconnect(r *http.Request, say writer, shown connection, _ refused) (confirmation, error) {
	if shown.State == oauth.Disconnected {
		return confirmation{}, site.Redirect(shown.path())
	}
	event, err := c.EventTo(r.Context(), shown.Partner.ClientID)
	name := isolated(shown.Partner.Name)
	return confirmation{
		Names: []any{"Email", shown.User.Email, "Partner", shown.Partner.Name},
		Says: []template.HTML{
			say.HTML("console.disconnect.says", "Partner", name, "Version", say.Number(shown.Version), "Scopes", shown.Scopes.String(),
				"From", date(shown.HistoryFrom), "Refreshes", say.amount("refreshes", int(shown.Refreshes))),
			say.HTML("console.disconnect."+notified[event], "Partner", name),
		},
		Grave: true, Back: shown.path(),
	}, err
}

func (c *console) disconnect(_ http.ResponseWriter, r *http.Request, shown connection) error {
	return outcome(c.OAuth.DisconnectByOperator(r.Context(), shown.User.ID, shown.Partner.ClientID), shown.path(), "connection_disconnected")
}

// moment is an entry of a connection's history. One of the three pointers is set, or Folded.
type moment struct {
	At       time.Time
	Deed     *deed
	Event    *webhook.Event
	Adjusted *activity.Adjustment
	Folded   []moment

	keys [3]page.Key // after which the history continues in the audit log, the events and the adjustments
}

// Since is the time of the earliest that is folded.
func (m moment) Since() time.Time { return m.Folded[len(m.Folded)-1].At }

// deed is an entry of the audit log.
type deed struct {
	audit.Event
	Text   string // the key of the text, or empty for none
	Scopes string
	Tone   string // of its mark: good, warn, bad, or none
}

// moments returns at most limit entries of a connection's history before a key, newest first, with the corrections of some datasets. It merges
// three lists, each read in the order of an index.
func (c *console) moments(ctx context.Context, life oauth.Connection, corrected []activity.Adjusted, before [3]page.Key, limit int) ([]moment, error) {
	user, partner := life.UserID, life.Partner.ClientID
	log, err := c.Audit.Search(ctx, audit.Filter{UserID: user, ClientID: partner}, before[0], limit)
	if err != nil {
		return nil, err
	}
	events, err := c.Webhooks.EventsOf(ctx, user, partner, before[1], limit)
	if err != nil {
		return nil, err
	}
	var adjustments []activity.Adjustment
	if len(corrected) > 0 {
		adjustments, err = c.Activity.LatestAdjustments(ctx, user, corrected, before[2], limit)
	}
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

// fold makes one entry of each run of three or more changes of activity that were delivered: there are many on a day.
func fold(all []moment) (entries []moment) {
	for len(all) > 0 {
		run := slices.IndexFunc(all, func(m moment) bool {
			return m.Event == nil || m.Event.Reason != "" || m.Event.State != webhook.Delivered
		})
		switch {
		case run < 0:
			run = len(all)
		case run == 0:
			run = 1
		}
		if run < 3 {
			entries = append(entries, all[:run]...)
		} else {
			entries = append(entries, moment{At: all[0].At, Folded: all[:run]})
		}
		all = all[run:]
	}
	return entries
}

// newDeed returns an audit entry about a connection with its text.
func newDeed(event audit.Event) *deed {
	event = asActed(event)
	d := &deed{Event: event, Scopes: detailOf(event).Scopes}
	did := func(text, tone string) { d.Text, d.Tone = "console.did."+text, tone }
	switch event.Action {
	case "consent.allowed", "consent.denied", "access_token.revoked":
		did(strings.ReplaceAll(event.Action, ".", "_"), "")
	case "connection.authorized":
		did("authorized", "good")
	case "connection.recovered":
		did("recovered", "good")
	case "connection.lapsed":
		did("lapsed", "warn")
	case "connection.revoked":
		did("revoked."+reasonOf(event), "bad")
	case "connection.disconnected":
		did("disconnected."+endedBy(event), "warn")
	}
	return d
}
