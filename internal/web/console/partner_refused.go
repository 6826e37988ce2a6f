package console

import (
	"net/http"

	"connect-svc/internal/client"
	"connect-svc/internal/page"
	"connect-svc/internal/usage"
)

// refusedList is a page of a partner's refused requests, newest first.
type refusedList struct {
	aboutPartner
	Rows  []usage.ClientError
	Pages pages
}

func (c *console) listRefused(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	_, err := parseQuery(r)
	if err != nil {
		return err
	}
	list := refusedList{aboutPartner: aboutPartner{partner, "refused"}}
	list.Rows, list.Pages, err = listing(r, firstCursor, "refused requests", func(after page.Key, limit int) ([]usage.ClientError, error) {
		return c.Usage.Errors(r.Context(), partner.ID, after, limit)
	}, usage.ClientError.Key)
	if err != nil {
		return err
	}
	return c.write(w, r, "partners", "refused", list)
}
