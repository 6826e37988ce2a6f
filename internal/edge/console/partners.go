package console

import (
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
)

const partnersPath = Path + "/partners"

// aboutPartner is the header of each page about a partner.
type aboutPartner struct {
	Partner client.Client
	Tab     string
}

// IsRequest reports whether a form asks the operator for a change, instead of making it.
func (a aboutPartner) IsRequest() bool { return a.Tab == "changes" }

// partnerPath returns the path of a partner's pages: in the console, or in the portal.
func (c *console) partnerPath(id uuid.UUID) string { return c.base + "/partners/" + id.String() }

// partnerOf returns the partner in the path.
func (c *console) partnerOf(r *http.Request) (client.Client, error) {
	id, err := site.PathID(r, "partner")
	if err != nil {
		return client.Client{}, err
	}
	return c.Clients.Get(r.Context(), id)
}

// partnerList lists the partners that filters find with their usage, in an order.
type partnerList struct {
	Query  map[string]string // the filters and the order
	Window window
	Rows   []usage.Report
	Pages  pages
}

// IsFiltered reports whether there are partners that the filters leave out.
func (l partnerList) IsFiltered() bool {
	for name, value := range l.Query {
		if name != "order" && value != "" {
			return true
		}
	}
	return false
}

func (c *console) listPartners(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r, "hours", "q", "host", "status", "change", "failing", "order")
	if err != nil {
		return err
	}
	list := partnerList{Query: map[string]string{}}
	if list.Window, err = c.windowOf(query); err != nil {
		return err
	}
	list.Window.Since = list.Window.Since.Truncate(24 * time.Hour)
	filters := url.Values{}
	for _, name := range []string{"q", "host", "status", "change", "failing", "order"} {
		if value := query[name]; value != "" {
			filters.Set(name, value)
			list.Query[name] = value
		}
	}
	list.Window.Filters = template.URL(filters.Encode()) //nolint:gosec // encoded
	ranking := usage.Ranking{Order: usage.Order(query["order"]), Failing: query["failing"] != ""}
	if !ranking.Order.IsValid() {
		return site.ErrBadForm
	}
	ranking.Found, err = c.Clients.Search(r.Context(), client.Filter{
		Query: query["q"], Status: client.Status(query["status"]), CallbackHost: query["host"], WebhookHost: query["host"],
		ChangeRequested: query["change"] != "",
	})
	if err != nil {
		return err
	}
	list.Rows, list.Pages, err = listing(r, firstCursor, "partners", func(after page.Key, limit int) ([]usage.Report, error) {
		return c.Usage.Clients(r.Context(), ranking, list.Window.Since, after, limit)
	}, usage.Report.Key)
	if err != nil {
		return err
	}
	return c.write(w, r, "partners", list)
}

// partnerView is a partner with its registration.
type partnerView struct {
	aboutPartner
	Connections connectionCounts
	Days        daysView
	Webhook     webhook.Endpoint      // has no URL if there is none
	Change      *client.ChangeRequest // the last one, or nil
}

func (c *console) showPartner(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	connections, err := c.Usage.Connections(r.Context(), partner.ID)
	if err != nil {
		return err
	}
	days, err := c.lastDays(r, partner.ID)
	if err != nil {
		return err
	}
	endpoint, _, err := c.endpointOf(r, partner.ID)
	if err != nil {
		return err
	}
	change, err := c.lastChange(r, partner.ID)
	if err != nil {
		return err
	}
	return c.write(w, r, "partner", partnerView{aboutPartner{partner, "overview"}, c.writer(r).counted(connections), days, endpoint, change})
}

// connectionCounts has formatted counts of connections.
type connectionCounts struct {
	Note       string // how exact the numbers are, or empty if they are exact
	Authorized string
	States     []stateCount // empty if there are no connections or the counts are unknown
}

type stateCount struct {
	Name, Count string
	X, Width    float64 // in the bar, of 100
}

// counted formats counts of connections.
func (say writer) counted(connections usage.Connections) connectionCounts {
	var c connectionCounts
	switch connections.Precision {
	case usage.Exact:
	case usage.Estimated:
		c.Note = say.Text("console.connections.counted", "At", connections.At.UTC().Format(time.DateTime))
	case usage.AtLeast:
		c.Note = say.Text("console.connections.bounded")
	case usage.Unknown:
		return connectionCounts{Note: say.Text("console.connections.too_long"), Authorized: say.precisely(0, usage.Unknown)}
	}
	if connections.Sum() == 0 {
		return connectionCounts{Note: say.Text("console.connections.none"), Authorized: say.Number(0)}
	}
	x := 0.0
	for _, part := range []struct {
		name string
		n    int64
	}{
		{"authorized", connections.Authorized}, {"lapsed", connections.Lapsed},
		{"revoked", connections.Revoked}, {"disconnected", connections.Disconnected},
	} {
		width := 100 * float64(part.n) / float64(connections.Sum())
		c.States = append(c.States, stateCount{part.name, say.precisely(part.n, connections.Precision), x, width})
		x += width
	}
	c.Authorized = c.States[0].Count
	return c
}

// precisely writes a count and its precision.
func (say writer) precisely(n int64, precision usage.Precision) string {
	switch precision {
	case usage.AtLeast:
		return say.Text("console.connections.at_least", "Number", say.Number(n))
	case usage.Unknown:
		return say.Text("console.connections.unknown")
	case usage.Exact, usage.Estimated:
	}
	return say.Number(n)
}
