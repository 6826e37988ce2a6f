package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/audit"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/page"
	"connect-svc/internal/web/site"
)

const auditPath = Path + "/audit"

func (c *console) routeAudit(r chi.Router) {
	r.Get(auditPath, c.page(c.listAudit))
	r.Get(auditPath+".csv", c.page(c.writeAudit))
}

// auditFields are the filters, by their names in the address.
var auditFields = []string{"from", "to", "actor", "action", "user", "partner"}

// auditView is a page of the audit log.
type auditView struct {
	Query    map[string]string
	Wrong    bool // a filter cannot be read
	Rows     []audit.Event
	Partners map[uuid.UUID]string // their names
	Back     time.Time            // how far back the search came, where it stopped before the page was full
	Pages    pages
	CSV      string // the address of the same as a file
}

// Name is that of a partner; empty where there is none.
func (v auditView) Name(id uuid.UUID) string { return v.Partners[id] }

// HasUser and HasPartner tell whom an event is about.
func (auditView) HasUser(e audit.Event) bool { return e.UserID != uuid.Nil }

// HasPartner tells whether an event is about a partner.
func (auditView) HasPartner(e audit.Event) bool { return e.ClientID != uuid.Nil }

// Only is the address of the log with one filter more.
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

// Detail is what an event says beside its columns; empty where that is nothing.
func (auditView) Detail(e audit.Event) string {
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
	view := auditView{Query: query, CSV: auditPath + ".csv"}
	if filters := filtersOf(r).Encode(); filters != "" {
		view.CSV += "?" + filters
	}
	filter, ok := auditFilter(query)
	if !ok {
		view.Wrong = true
		return c.write(w, r, "audit", "audit", view)
	}
	var next *string
	view.Rows, next, err = page.Search(listed(r, firstCursor, "audit"), func(before page.Key, limit int) ([]audit.Event, page.Key, error) {
		found, err := c.Audit.Search(r.Context(), filter, before, limit)
		if len(found.Events) < limit {
			view.Back = found.Next.At
		}
		return found.Events, found.Next, err
	})
	if err != nil {
		return err
	}
	view.Pages = around(r, firstCursor, next)
	var named []uuid.UUID
	for _, event := range view.Rows {
		named = append(named, event.ClientID)
	}
	if view.Partners, err = c.Clients.Names(r.Context(), named); err != nil {
		return err
	}
	return c.write(w, r, "audit", "audit", view)
}

// auditFilter reads the filters; ok is false where one is not what it should be.
func auditFilter(query map[string]string) (filter audit.Filter, ok bool) {
	filter = audit.Filter{Actor: query["actor"], Action: query["action"]}
	var problem error
	instant := func(name string) (at time.Time) {
		if text := query[name]; text != "" {
			var err error
			if at, err = time.Parse("2006-01-02T15:04", text); err != nil {
				if at, err = time.Parse("2006-01-02T15:04:05", text); err != nil {
					at, err = time.Parse(time.DateOnly, text)
				}
			}
			problem = cmp.Or(problem, err)
		}
		return at
	}
	id := func(name string) (id uuid.UUID) {
		if text := query[name]; text != "" {
			var err error
			id, err = uuid.Parse(text)
			problem = cmp.Or(problem, err)
		}
		return id
	}
	filter.Since, filter.Until, filter.UserID, filter.ClientID = instant("from"), instant("to"), id("user"), id("partner")
	return filter, problem == nil
}

// writeAudit sends all that a filter finds as a file, newest first. It is written while it is read, in parts that each have the
// time of a page.
func (c *console) writeAudit(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, auditFields...)
	if err != nil {
		return err
	}
	filter, ok := auditFilter(query)
	if !ok {
		return site.ErrNotFound
	}
	if err := c.Audit.RecordExport(r.Context(), "console", filter); err != nil {
		return err
	}
	file := &attachment{ResponseWriter: w}
	err = c.Audit.WriteCSV(r.Context(), file, filter, func(ctx context.Context) (context.Context, context.CancelFunc) {
		// The listener's limit is for pages. Where the server has no such limit, this fails and changes nothing.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(partTime))
		return fairqueue.Within(ctx, inConsole, c.Limits.Act)
	})
	if err != nil && file.begun {
		panic(http.ErrAbortHandler) // whoever reads it learns that it is not complete
	}
	return err
}

// partTime is how long a part of a file may take, to be read from the database and by the browser.
const partTime = 30 * time.Second

// attachment is a file that a browser saves. Its headers are sent with its first bytes: before that, an error has a page.
type attachment struct {
	http.ResponseWriter
	begun bool
}

func (a *attachment) Write(part []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
		a.Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
	}
	return a.ResponseWriter.Write(part)
}
