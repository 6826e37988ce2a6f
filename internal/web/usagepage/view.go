package usagepage

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/brand"
	"connect-svc/internal/usage"
)

// mostCards is how many clients are drawn on one page: the busiest. The others are in its table, each with a link.
const mostCards = 50

// view is the page.
type view struct {
	Brand     brand.Brand
	Hours     int
	Only      string // the client's id, on a page about one
	From, Now time.Time
	Clients   []client // with requests, the busiest first
	Quiet     []client // without
}

// Cards are those of Clients that are drawn.
func (v view) Cards() []client { return v.Clients[:min(len(v.Clients), mostCards)] }

// client is a report with its drawings, which it has on a card.
type client struct {
	usage.Report
	Connections connections
	Charts      []chart
	Bars        []string // of the operations
}

// Busy are the hours with requests, the last one first.
func (c client) Busy() (hours []usage.Hour) {
	for _, hour := range slices.Backward(c.Hours) {
		if hour.Requests > 0 {
			hours = append(hours, hour)
		}
	}
	return hours
}

// Peak is the share of the budget that the busiest minute of an hour took.
func (c client) Peak(hour usage.Hour) float64 {
	return float64(hour.BusiestMinute) / float64(c.RequestsPerMinute)
}

// connections are counts in words.
type connections struct {
	Note       string // what the numbers are, where they are not exact
	Authorized string
	States     []state // none where nothing is known, or there is nothing
}

type state struct {
	Name, Count string
	X, Width    float64 // in the bar, of 100
}

// newView makes the page of reports.
func newView(reports []usage.Report, of brand.Brand, hours int, only uuid.UUID, now time.Time) view {
	v := view{Brand: of, Hours: hours, Now: now, From: now.Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)}
	if only != uuid.Nil {
		v.Only = only.String()
	}
	slices.SortStableFunc(reports, func(a, b usage.Report) int { return cmp.Compare(b.Total.Requests, a.Total.Requests) })
	for i, report := range reports {
		c := client{Report: report, Connections: inWords(report.Connections)}
		if report.Total.Requests == 0 {
			v.Quiet = append(v.Quiet, c)
			continue
		}
		if i < mostCards {
			c.draw()
		}
		v.Clients = append(v.Clients, c)
	}
	return v
}

func (c *client) draw() {
	c.Charts = []chart{drawRequests(c.Report), drawBudget(c.Report), drawTimes(c.Report)}
	requests := func(f usage.Figures) int64 { return f.Requests }
	top := 1.0
	for _, operation := range c.Operations {
		top = max(top, slices.Max(valuesOf(operation.Hours, requests)))
	}
	for _, operation := range c.Operations {
		c.Bars = append(c.Bars, bars(valuesOf(operation.Hours, requests), nil, top, 5))
	}
}

func inWords(counted usage.Connections) connections {
	var c connections
	prefix := ""
	switch counted.Precision {
	case usage.Exact:
	case usage.Estimated:
		prefix, c.Note = "about ", "Estimated from a sample."
	case usage.AtLeast:
		prefix, c.Note = "at least ", "The first that were counted: there are more."
	case usage.Unknown:
		return connections{Note: "Not counted: it took too long.", Authorized: "unknown"}
	}
	if counted.Sum() == 0 {
		return connections{Note: "No connections.", Authorized: "0"}
	}
	x := 0.0
	for _, part := range []struct {
		name string
		n    int64
	}{{"authorized", counted.Authorized}, {"lapsed", counted.Lapsed}, {"revoked", counted.Revoked}, {"disconnected", counted.Disconnected}} {
		width := 100 * float64(part.n) / float64(counted.Sum())
		c.States = append(c.States, state{part.name, prefix + thousands(part.n), x, width})
		x += width
	}
	c.Authorized = c.States[0].Count
	return c
}
