package console

import (
	"net/http"
	"net/url"

	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/text"
)

const findPath = Path + "/find"

// findView is what a text names.
type findView struct {
	Query   string
	Rows    []lookup.Found
	Address bool              // it may be an address, which no user has
	SignIns account.SignInLog // of that address
}

// PathOf returns the page of what was found.
func (v findView) PathOf(found lookup.Found) string {
	partner := partnersPath + "/" + found.ClientID.String()
	switch found.Kind {
	case lookup.User:
		return userPath(found.UserID)
	case lookup.Connection:
		return connectionPath(found.UserID, found.ClientID)
	case lookup.Request:
		return partner + "/refused?" + url.Values{"request": {v.Query}}.Encode()
	case lookup.Event:
		return partner + "/webhooks/" + found.EventID.String()
	case lookup.Client:
	}
	return partner
}

// find leads to what the search box names, or lists it. Of an address that no user has it tells what happened to sign-ins.
func (c *console) find(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, "q")
	if err != nil {
		return err
	}
	x := findView{Query: query["q"]}
	if len(x.Query) <= lookup.MaxText {
		if x.Rows, err = c.Finder.Find(r.Context(), x.Query); err != nil {
			return err
		}
	}
	if len(x.Rows) == 1 {
		return site.Redirect(x.PathOf(x.Rows[0]))
	}
	if x.Address = len(x.Rows) == 0 && text.IsAddress(x.Query); x.Address {
		if x.SignIns, err = c.signInsOf(r, x.Query); err != nil {
			return err
		}
	}
	return c.write(w, r, "find", x)
}

// toFind returns the address that finds a text.
func toFind(text string) string { return findPath + "?" + url.Values{"q": {text}}.Encode() }
