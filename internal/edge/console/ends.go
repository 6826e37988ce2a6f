package console

import (
	"context"
	"encoding/csv"
	"errors"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/work"
)

// connectionsView is a partner's connections: one that is found by its grant id, or the ends of all. It names no user and no operator.
type connectionsView struct {
	aboutPartner
	Query map[string]string
	logPage
	grants

	Found   *oauth.Connection // nil if there is none
	Deleted bool              // the user is deleted
	Why     template.HTML     // the connection works or does not
	Days    []moment          // its history, newest first

	Reasons []string
	Wrong   bool   // a filter is malformed
	CSV     string // the address of the file with the same filters
}

func (c *console) showConnections(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "grant", "reason", "from", "to")
	if err != nil {
		return err
	}
	x := connectionsView{aboutPartner: aboutPartner{partner, "connections"}, Query: query, Reasons: audit.Ends}
	if query["grant"] != "" {
		err = c.addGrant(r, &x)
	} else {
		err = c.addEnds(r, &x)
	}
	if err != nil {
		return err
	}
	return c.write(w, r, "connections", x)
}

// userOfGrant returns whose connection with a partner has a grant id; uuid.Nil: nobody's, or it is malformed.
func (c *console) userOfGrant(ctx context.Context, partner client.Client, grant string) (uuid.UUID, error) {
	id, malformed := uuid.Parse(grant)
	if malformed != nil {
		return uuid.Nil, nil
	}
	user, owner, err := c.Finder.OfGrant(ctx, id)
	if owner != partner.ID {
		user = uuid.Nil
	}
	return user, err
}

// addGrant adds the connection with the grant id of the query.
func (c *console) addGrant(r *http.Request, x *connectionsView) error {
	ctx := r.Context()
	user, err := c.userOfGrant(ctx, x.Partner, x.Query["grant"])
	if err != nil || user == uuid.Nil {
		return err
	}
	life, err := c.OAuth.Connection(ctx, user, x.Partner.ID)
	switch {
	case errors.Is(err, oauth.ErrNotConnected): // the user is deleted, and the partner's last event is still there
		x.Deleted = true
		life = oauth.Connection{UserID: user, State: oauth.Disconnected}
		life.Partner.ClientID, life.Partner.Name = x.Partner.ID, x.Partner.Name
	case err != nil:
		return err
	case life.GrantID != uuid.MustParse(x.Query["grant"]): // it is the grant of before
		return nil
	}
	x.Found = &life
	x.Days, x.Pages, err = listing(r, firstCursor, "life", func(after [3]page.Key, limit int) ([]moment, error) {
		return c.moments(ctx, life, nil, after, limit)
	}, func(m moment) [3]page.Key { return m.keys })
	if err != nil {
		return err
	}
	x.Days = fold(slices.DeleteFunc(x.Days, func(m moment) bool { return m.Deed != nil && !isOfConnection(m.Deed.Event) }))
	for _, m := range x.Days {
		if m.Deed != nil && m.Deed.End != "" { // without the operator's name
			m.Deed.Text = endText(m.Deed.End)
		}
	}
	say := c.writer(r)
	if life.State == oauth.Revoked || life.State == oauth.Disconnected {
		end, err := c.lastOf(ctx, audit.Filter{ClientID: x.Partner.ID, UserID: user, Ends: true})
		if err != nil {
			return err
		}
		if end != nil {
			x.Why = say.HTML("console.ends.why", "Since", instant(end.EndedAt()), "Reason", say.HTML(endText(end.End)))
			return nil
		}
	}
	x.Why, err = c.why(ctx, say, life, nil)
	return err
}

// isOfConnection reports whether an event is about what a partner and its connection did. The others are decisions of the user about the
// partner, which the partner learns from the user's browser alone.
func isOfConnection(e audit.Event) bool {
	return strings.HasPrefix(e.Action, "connection.") || e.Action == "access_token.revoked"
}

func endText(end string) string { return "console.ends.by." + end }

// endsFilter reads the filters of a list of ends: a reason, and days in UTC of which both count.
func endsFilter(partner client.Client, query map[string]string) (filter audit.Filter, ok bool) {
	filter = audit.Filter{ClientID: partner.ID, Ends: true, End: query["reason"]}
	ok = filter.End == "" || slices.Contains(audit.Ends, filter.End)
	for _, name := range []string{"from", "to"} {
		if query[name] == "" {
			continue
		}
		day, err := time.Parse(time.DateOnly, query[name])
		switch ok = ok && err == nil; name {
		case "from":
			filter.Since = day
		default:
			filter.Until = day.AddDate(0, 0, 1)
		}
	}
	return filter, ok
}

// addEnds adds the ends that match the filters of the query.
func (c *console) addEnds(r *http.Request, x *connectionsView) error {
	filter, ok := endsFilter(x.Partner, x.Query)
	if !ok {
		x.Wrong = true
		return nil
	}
	x.CSV = filed(r)
	var err error
	if x.logPage, err = c.search(r, "ends", filter); err != nil {
		return err
	}
	x.grants, err = c.grantsOf(r.Context(), x.Partner, x.Rows)
	return err
}

// grants are those of a partner's users who are not deleted, by user.
type grants map[uuid.UUID]uuid.UUID

// grantsOf returns the grants of the users that events are about.
func (c *console) grantsOf(ctx context.Context, partner client.Client, events []audit.Event) (grants, error) {
	var users []uuid.UUID
	for _, event := range events {
		users = append(users, event.UserID)
	}
	slices.SortFunc(users, func(a, b uuid.UUID) int { return strings.Compare(string(a[:]), string(b[:])) })
	return c.OAuth.Grants(ctx, partner.ID, slices.Compact(users))
}

// GrantOf returns the grant of an event about a connection, or an empty string if its user is deleted.
func (g grants) GrantOf(e audit.Event) string {
	if grant, known := g[e.UserID]; known && isOfConnection(e) {
		return grant.String()
	}
	return ""
}

// writeEnds sends every end that matches the filters as a CSV file, newest first.
func (c *console) writeEnds(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "reason", "from", "to")
	if err != nil {
		return err
	}
	filter, ok := endsFilter(partner, query)
	if !ok {
		return site.ErrNotFound
	}
	return c.writeFile(w, r, "ended-connections.csv", func(file io.Writer, within func(context.Context) (context.Context, context.CancelFunc)) error {
		rows := csv.NewWriter(file)
		if err := rows.Write([]string{"ended_at", "reason", "grant_id", "connection_version"}); err != nil {
			return err
		}
		return c.Audit.Each(r.Context(), filter, within, func(ctx context.Context, part []audit.Event) error {
			grants, err := c.grantsOf(ctx, partner, part)
			for _, e := range part {
				_ = rows.Write([]string{e.EndedAt().UTC().Format(time.RFC3339Nano), e.End, grants.GrantOf(e), strconv.FormatInt(e.EndedVersion(), 10)})
			}
			if rows.Flush(); err == nil {
				err = rows.Error()
			}
			return err
		})
	})
}

// writeFile sends a CSV file that write writes. Each of its parts, which may have the context that within returns, has its own time limit.
func (c *console) writeFile(w http.ResponseWriter, r *http.Request, name string,
	write func(file io.Writer, within func(context.Context) (context.Context, context.CancelFunc)) error,
) error {
	caller := work.CallerOf(r.Context())
	return site.Attach(r.Context(), w, name, "text/csv; charset=utf-8; header=present", func(file io.Writer) error {
		return write(file, func(ctx context.Context) (context.Context, context.CancelFunc) {
			// The listener's limit is for pages. Without such a limit this fails, which changes nothing.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(partTime))
			return work.Within(ctx, caller, c.Limits.Act)
		})
	})
}

// partTime limits how long one part takes to read from the database and to send.
const partTime = 30 * time.Second
