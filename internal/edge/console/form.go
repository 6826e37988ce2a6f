package console

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
)

// confirmation is the page that asks to confirm an act, and its form. The form is posted to the path of the page.
type confirmation struct {
	Title  string          // of the page and its heading
	Names  []any           // in the heading, if its text is that of the act
	Says   []template.HTML // what will happen, one paragraph each
	Action string          // the text of the button
	Grave  bool            // the act removes something
	Back   string          // the path of the page before
	Fields []field         // empty if there is only a button
	Hidden []named         // hidden fields

	Problem template.HTML // of the whole form, or empty
}

// field of a form.
type field struct {
	Name, Type string // as in HTML; the type textarea stands for that element
	Label      template.HTML
	Hint       template.HTML // empty if there is none
	Value      string
	Problem    template.HTML // with the value, or empty
	Optional   bool
	Max        int // characters, or 0 for no limit

	Choices []choice // if there are any, the field is a list
}

// choice is an option of a field.
type choice struct{ Value, Text string }

// named is a hidden field, or a secret.
type named struct{ Name, Value string }

// refused is the error of an act whose form has a problem. The page that asks for the act shows the form again.
type refused struct {
	form map[string]string
	error
}

// Unwrap returns the problem.
func (r refused) Unwrap() error { return r.error }

// problem returns what is wrong with the field of a name, or nothing.
func (r refused) problem(say writer, name string) template.HTML {
	if wrong, ok := errors.AsType[refusal.Field](r.error); ok && wrong.Path == name {
		return say.HTML("console.wrong", "Problem", wrong.Problem)
	}
	return ""
}

// asking returns the page that asks for an act. no is empty, or has the form that was refused, whose values the fields get.
type asking[T any] = func(r *http.Request, say writer, chosen T, no refused) (confirmation, error)

// previewed has the page that asks for an act, and the act. Its heading and its button are the texts of its name, unless ask sets them. If the act
// returns a [refused], it shows the page again.
func previewed[T any](c *console, text string, subject func(*http.Request) (T, error), ask asking[T], act site.About[T]) handlers {
	show := func(w http.ResponseWriter, r *http.Request, about T, no refused) error {
		say := c.writer(r)
		x, err := ask(r, say, about, no)
		if err != nil {
			return err
		}
		if x.Title == "" {
			x.Title = say.Text("console."+text+".heading", x.Names...)
		}
		if x.Action == "" {
			x.Action = say.Text("console." + text + ".act")
		}
		if no.form == nil {
			return c.write(w, r, "confirm", x)
		}
		for i, f := range x.Fields {
			x.Fields[i].Value, x.Fields[i].Problem = no.form[f.Name], cmp.Or(f.Problem, no.problem(say, f.Name))
		}
		return c.refuse(w, r, "confirm", x)
	}
	return given(subject, func(w http.ResponseWriter, r *http.Request, about T) error {
		return show(w, r, about, refused{})
	}, func(w http.ResponseWriter, r *http.Request, about T) error {
		err := act(w, r, about)
		no, ok := errors.AsType[refused](err)
		if !ok {
			return err
		}
		if about, err = subject(r); err != nil { // the act may have found it changed
			return err
		}
		return show(w, r, about, no)
	})
}

// failures maps errors to pages with the texts console.failure.{name}. Any other error is a fault of the service.
var failures = []struct {
	err    error
	name   string // also in the log
	status int
}{
	{site.ErrBadForm, "bad_form", http.StatusBadRequest},
	{site.ErrForeignForm, "foreign_form", http.StatusForbidden},
	{operators.ErrReadOnly, "read_only", http.StatusForbidden},
	{portal.ErrNoSession, "no_session", http.StatusForbidden},
	{portal.ErrClientDisabled, "partner_disabled", http.StatusConflict},
	{portal.ErrTooMany, "too_many_links", http.StatusConflict},
	{errReadOnlyLink, "read_only_link", http.StatusForbidden},
	{page.ErrCursor, "cursor", http.StatusBadRequest},
	{site.ErrNotFound, "not_found", http.StatusNotFound},
	{refusal.ErrUserNotFound, "user_not_found", http.StatusNotFound},
	{activity.ErrNoAdjustment, "adjustment_not_found", http.StatusNotFound},
	{oauth.ErrNotConnected, "not_connected", http.StatusNotFound},
	{refusal.ErrClientNotFound, "partner_not_found", http.StatusNotFound},
	{refusal.ErrClientOffboarded, "offboarded", http.StatusConflict},
	{client.ErrNoChangeRequest, "change_gone", http.StatusConflict},
	{webhook.ErrEventType, "bad_form", http.StatusBadRequest},
	{webhook.ErrNoEndpoint, "no_webhook", http.StatusConflict},
	{webhook.ErrStopped, "webhook_stopped", http.StatusConflict},
	{webhook.ErrNoEvent, "event_not_found", http.StatusNotFound},
	{refusal.ErrOverBudget, "over_budget", http.StatusTooManyRequests},
}

// failureView is the page of an error.
type failureView struct {
	Name  string
	Until time.Time // when what is over its budget goes on
}

// fail sends the page of an error.
func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	event := telemetry.EventOf(r.Context())
	name, status := "fault", http.StatusInternalServerError
	for _, known := range failures {
		if errors.Is(err, known.err) {
			name, status = known.name, known.status
			break
		}
	}
	event.Code = name
	if name == "fault" {
		event.Cause = err
	}
	x := failureView{Name: name}
	if spent, ok := errors.AsType[refusal.OverBudget](err); ok {
		w.Header().Set("Retry-After", spent.RetryAfter())
		x.Until = spent.Until
	}
	c.site.Write(w, r, status, "failure", view{Who: principalOf(r), X: x})
}

// rowsPerPage is the number of rows on a page of a list.
const rowsPerPage = 50

// pages has the addresses of other pages of a list, or empty.
type pages struct{ First, Next string }

// The fields of a query that hold a cursor. A second list on a page has its own.
const (
	firstCursor  = "after"
	secondCursor = "after2"
)

// listing reads the page of a list whose cursor a field of the query holds. The rest of the query is the list's filters. Error:
// page.ErrCursor.
func listing[T any, P comparable](
	r *http.Request, field, name string, list func(after P, limit int) ([]T, error), position func(T) P,
) ([]T, pages, error) {
	rows, next, err := page.Read(listingOf(r, field, name), list, position)
	return rows, pageLinks(r, field, next), err
}

// listingOf returns the list that the query asks for.
func listingOf(r *http.Request, field, name string) page.List {
	list := page.List{Name: "console " + r.URL.Path + " " + name, Filters: filtersOf(r), Limit: new(rowsPerPage)}
	if cursor := r.URL.Query().Get(field); cursor != "" {
		list.Cursor = &cursor
	}
	return list
}

// pageLinks returns the addresses of the first page and of the page at the cursor next.
func pageLinks(r *http.Request, field string, next *string) (to pages) {
	filters := filtersOf(r)
	if r.URL.Query().Get(field) != "" {
		to.First = address(r, filters)
	}
	if next != nil {
		filters.Set(field, *next)
		to.Next = address(r, filters)
	}
	return to
}

// filtersOf returns the query without cursors and the last act.
func filtersOf(r *http.Request) url.Values {
	filters := r.URL.Query()
	for _, other := range []string{firstCursor, secondCursor, "done"} {
		filters.Del(other)
	}
	return filters
}

func address(r *http.Request, query url.Values) string {
	return (&url.URL{Path: r.URL.Path, RawQuery: query.Encode()}).String()
}

// filed returns the address of the CSV file of a list with the same filters.
func filed(r *http.Request) string {
	return (&url.URL{Path: r.URL.Path + ".csv", RawQuery: filtersOf(r).Encode()}).String()
}

// parseQuery reads the query. It also accepts a cursor and the name of the last act. Error: site.ErrBadForm.
func parseQuery(r *http.Request, known ...string) (map[string]string, error) {
	return site.ParseForm(r.URL.RawQuery, append(known, firstCursor, "done"))
}
