package console

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/site"
)

// month is what is recorded of a user in a month, and what partners see of it.
type month struct {
	Name, Before, After string // such as 2026-03; After is empty if it has not begun
	activity.View
	Charts []chart
}

const monthLayout = "2006-01"

// monthOf returns the month that the query names, or the current one. The audit log records who has viewed it. Error: site.ErrBadForm.
func (c *console) monthOf(r *http.Request, user account.User, name string) (m month, err error) {
	now := c.Now().UTC()
	first, err := time.Parse(monthLayout, cmp.Or(name, now.Format(monthLayout)))
	if err != nil || first.Year() < 1900 {
		return m, site.ErrBadForm
	}
	next := first.AddDate(0, 1, 0)
	m = month{Name: first.Format(monthLayout), Before: first.AddDate(0, -1, 0).Format(monthLayout)}
	if next.Before(now.AddDate(0, 0, 1)) { // where the user is it may have begun
		m.After = next.Format(monthLayout)
	}
	if m.View, err = c.Activity.View(r.Context(), user.ID, activity.Range{From: first, To: next.AddDate(0, 0, -1)}); err != nil {
		return m, err
	}
	in, days := c.writer(r), next.AddDate(0, 0, -1).Day()
	for _, dataset := range datasets {
		if drawn := in.drawMonth(m, dataset, days); drawn.Series != nil {
			m.Charts = append(m.Charts, drawn)
		}
	}
	return m, nil
}

// drawMonth draws what partners see of each day. If they see nothing, it draws nothing.
func (in writer) drawMonth(m month, dataset activity.Adjusted, days int) chart {
	seen, most := make([]float64, days), int64(0)
	for _, day := range m.Days {
		total := day.Steps.Seen
		if dataset == activity.AdjustedCycling {
			total = day.Cycling.Seen
		}
		if total != nil {
			seen[day.Date.Day()-1], most = float64(*total), max(most, *total)
		}
	}
	date := func(i int) string { return fmt.Sprintf("%s-%02d", m.Name, i+1) }
	c := newChart(in.Text("console.dataset."+string(dataset)), in.Text("console.month.unit."+string(dataset)), days, func(i int) string {
		return date(i) + ": " + in.number(int64(seen[i]))
	})
	year := len("2006-")
	c.First, c.Half, c.Last = date(0)[year:], date(days / 2)[year:], date(days - 1)[year:]
	c.Summary = in.Text("console.month.summary", "Most", in.number(most))
	if top := niceAbove(most); most > 0 {
		c.Scale = []string{in.number(top), in.number(top / 2), in.number(0)}
		c.stacked("answered", in.Text("console.month.seen"), seen, make([]float64, days), float64(top))
	}
	return c
}

// cells are the figures of a day in a table, or empty.
type cells struct{ Label, Recorded, Adjusted, Seen string }

// cells returns the figures of a day. label names the first.
func (in writer) cells(label string, f activity.ViewedFigures) cells {
	c := cells{Label: label}
	if f.IsRecorded {
		c.Recorded = in.number(f.Recorded)
	}
	if f.Adjusted != 0 {
		c.Adjusted = in.signed(int(f.Adjusted))
	}
	if f.Seen != nil {
		c.Seen = in.number(*f.Seen)
	}
	return c
}
