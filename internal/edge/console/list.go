package console

import (
	"net/http"
	"net/url"

	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
)

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
	of := page.List{Name: "console " + r.URL.Path + " " + name, Filters: filtersOf(r), Limit: new(rowsPerPage)}
	if cursor := r.URL.Query().Get(field); cursor != "" {
		of.Cursor = &cursor
	}
	return of
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

// parseQuery reads the query. It also accepts a cursor and the name of the last act. Error: site.ErrBadForm.
func parseQuery(r *http.Request, known ...string) (map[string]string, error) {
	return site.ParseForm(r.URL.RawQuery, append(known, firstCursor, "done"))
}
