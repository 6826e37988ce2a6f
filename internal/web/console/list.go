package console

import (
	"net/http"
	"net/url"

	"connect-svc/internal/page"
	"connect-svc/internal/web/site"
)

// rowsPerPage is how many rows of a list are on a page.
const rowsPerPage = 50

// pages are the addresses of other pages of a list; empty: there is none.
type pages struct{ First, Next string }

// cursors are the fields of a query that hold one. Where a page has two lists, the second one has another.
const (
	firstCursor  = "after"
	secondCursor = "after2"
)

// listing asks a domain for the rows of the page that the query names with a cursor in a field, which belongs to the list and to the rest of
// the query, its filters. Error: page.ErrCursor.
func listing[T any, P comparable](
	r *http.Request, field, name string, list func(after P, limit int) ([]T, error), position func(T) P,
) ([]T, pages, error) {
	rows, next, err := page.Read(listed(r, field, name), list, position)
	return rows, around(r, field, next), err
}

// listed is the list that the query asks for.
func listed(r *http.Request, field, name string) page.List {
	of := page.List{Name: "console " + r.URL.Path + " " + name, Filters: filtersOf(r), Limit: new(rowsPerPage)}
	if cursor := r.URL.Query().Get(field); cursor != "" {
		of.Cursor = &cursor
	}
	return of
}

// around are the first page of a list and the one behind the cursor next.
func around(r *http.Request, field string, next *string) (to pages) {
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

// filtersOf is the query without what is no filter.
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

// parseQuery reads what the address asks for, beside the cursor of a list and what has just happened. Error: site.ErrBadForm.
func parseQuery(r *http.Request, known ...string) (map[string]string, error) {
	return site.ParseForm(r.URL.RawQuery, append(known, firstCursor, "done"))
}
