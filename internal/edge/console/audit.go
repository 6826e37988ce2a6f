package console

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
)

const auditPath = Path + "/audit"

// auditFields lists the names of the filters in a query.
var auditFields = []string{"from", "to", "actor", "action", "user", "partner"}

// auditView is a page of the audit log.
type auditView struct {
	Query    map[string]string
	Wrong    bool                 // a filter is malformed
	Partners map[uuid.UUID]string // their names
	CSV      string               // the address of the CSV file with the same filters
	logPage
}

// logPage is a page of the audit log.
type logPage struct {
	Rows  []audit.Event
	Back  time.Time // where the search stopped, if the page is not full
	Pages pages
}

// search reads a page of the list of a name: the entries that match a filter, newest first.
func (c *console) search(r *http.Request, name string, filter audit.Filter) (p logPage, err error) {
	var next *string
	p.Rows, next, err = page.Search(listingOf(r, firstCursor, name), func(before page.Key, limit int) ([]audit.Event, page.Key, error) {
		entries, err := c.Audit.Search(r.Context(), filter, before, limit)
		if len(entries.Events) < limit {
			p.Back = entries.Next.At
		}
		return entries.Events, entries.Next, err
	})
	p.Pages = pageLinks(r, firstCursor, next)
	return p, err
}

// HasUser reports whether an event is about a user.
func (logPage) HasUser(e audit.Event) bool { return e.UserID != uuid.Nil }

// HasPartner reports whether an event is about a partner. One about the operator's own webhook is not.
func (auditView) HasPartner(e audit.Event) bool {
	return e.ClientID != uuid.Nil && e.ClientID != webhook.Operator
}

// Only returns the address of the log with one more filter.
func (v auditView) Only(name, value string) string {
	query := url.Values{}
	for _, field := range auditFields {
		if v.Query[field] != "" {
			query.Set(field, v.Query[field])
		}
	}
	query.Set(name, value)
	return auditPath + "?" + query.Encode()
}

// Detail returns the detail of an event as JSON, or an empty string.
func (logPage) Detail(e audit.Event) string {
	if string(e.Detail) == "{}" {
		return ""
	}
	return string(e.Detail)
}

// listAudit shows the audit log, newest first, narrowed by the filters of the address.
func (c *console) listAudit(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, auditFields...)
	if err != nil {
		return err
	}
	view := auditView{Query: query, CSV: filed(r)}
	filter, ok, err := c.auditFilter(r.Context(), query)
	if err != nil {
		return err
	}
	if !ok {
		view.Wrong = true
		return c.write(w, r, "audit", view)
	}
	if view.logPage, err = c.search(r, "audit", filter); err != nil {
		return err
	}
	var named []uuid.UUID
	for _, event := range view.Rows {
		named = append(named, event.ClientID)
	}
	if view.Partners, err = c.Clients.Names(r.Context(), named); err != nil {
		return err
	}
	return c.write(w, r, "audit", view)
}

// auditFilter reads the filters: a user by id or address, a partner by id or name. ok is false if one is malformed, or names nobody or
// several partners.
func (c *console) auditFilter(ctx context.Context, query map[string]string) (filter audit.Filter, ok bool, err error) {
	filter = audit.Filter{Actor: query["actor"], Action: query["action"]}
	var problem error
	instant := func(name string) (at time.Time) {
		if query[name] == "" {
			return at
		}
		var err error
		for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
			if at, err = time.Parse(layout, query[name]); err == nil {
				return at
			}
		}
		problem = errWhen
		return at
	}
	id := func(name string, resolve func(context.Context, string) (uuid.UUID, error)) (id uuid.UUID) {
		if query[name] == "" {
			return id
		}
		id, err := uuid.Parse(query[name])
		if err != nil || id == uuid.Nil { // a deleted user has an id only; nobody has this one
			id, err = resolve(ctx, query[name])
		}
		problem = cmp.Or(problem, err)
		return id
	}
	filter.Since, filter.Until = instant("from"), instant("to")
	filter.UserID = id("user", func(ctx context.Context, email string) (uuid.UUID, error) {
		user, err := c.Accounts.FindUser(ctx, email)
		return user.ID, err
	})
	filter.ClientID = id("partner", c.Finder.ClientNamed)
	for _, unknown := range []error{refusal.ErrUserNotFound, refusal.ErrClientNotFound, lookup.ErrSeveral, errWhen} {
		if errors.Is(problem, unknown) {
			return filter, false, nil
		}
	}
	return filter, problem == nil, problem
}

// errWhen means that a time is malformed.
var errWhen = errors.New("not a time")

// writeAudit sends every matching entry as a CSV file, newest first. It reads and writes in parts, and each part has its own time limit.
func (c *console) writeAudit(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, auditFields...)
	if err != nil {
		return err
	}
	filter, ok, err := c.auditFilter(r.Context(), query)
	if err != nil {
		return err
	}
	if !ok {
		return site.ErrNotFound
	}
	if err := c.Audit.RecordExport(r.Context(), "console", filter); err != nil {
		return err
	}
	return c.writeFile(w, r, "audit.csv", func(file io.Writer, within func(context.Context) (context.Context, context.CancelFunc)) error {
		return c.Audit.WriteCSV(r.Context(), file, filter, within)
	})
}
