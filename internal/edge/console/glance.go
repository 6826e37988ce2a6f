package console

import (
	"time"

	"connect-svc/internal/admin/usage"
)

// glance is a figure of the overview, with its days as a drawing.
type glance struct {
	Name, Value   string
	Change        string // against the week before
	Href          string // of the list that it is about
	Width         int
	Path, Summary string // the drawing, and the same in words
}

// glances returns the figures that an operator wants in the morning, of days of which the last one is today. Figures are of the seven whole days
// before it, connections of now.
func (say writer) glances(days []usage.Day) (list []glance) {
	today := len(days) - 1
	now := today
	if days[now].NowAuthorized == 0 { // a day begins without a count
		now--
	}
	week := func(value func(usage.Day) int64, until int) (sum int64) {
		for _, day := range days[until-7 : until] {
			sum += value(day)
		}
		return sum
	}
	add := func(name, href string, value func(usage.Day) int64, current, before int64) {
		change := say.Text("console.glance.before", "Before", say.Number(before))
		if before > 0 {
			change = say.Text("console.glance.change", "Share", say.change(current, before), "Before", say.Number(before))
		}
		list = append(list, say.drawGlance(days, glance{Name: say.Text("console.glance." + name), Value: say.Number(current), Change: change, Href: href}, value))
	}
	authorized := func(d usage.Day) int64 { return d.NowAuthorized }
	add("active", partnersPath, authorized, authorized(days[now]), authorized(days[now-7]))
	for _, figure := range []struct {
		name, href string
		value      func(usage.Day) int64
	}{
		{"made", auditPath + "?action=connection.authorized", func(d usage.Day) int64 { return d.Authorized }},
		{"requests", partnersPath + "?hours=168", func(d usage.Day) int64 { return d.Requests }},
	} {
		add(figure.name, figure.href, figure.value, week(figure.value, today), week(figure.value, today-7))
	}
	refused := func(d usage.Day) int64 { return d.RateLimited + d.Refused + d.Failed }
	share := func(until int) string {
		requests := week(func(d usage.Day) int64 { return d.Requests }, until)
		return say.percent(float64(week(refused, until)) / float64(max(1, requests)))
	}
	list = append(list, say.drawGlance(days, glance{
		Name: say.Text("console.glance.refused"), Value: share(today), Href: partnersPath + "?hours=168&order=failures",
		Change: say.Text("console.glance.before", "Before", share(today-7)),
	}, refused))
	failed := func(d usage.Day) int64 { return d.WebhooksFailed }
	add("webhooks", partnersPath+"?hours=168&failing=1&order=failures", failed, week(failed, today), week(failed, today-7))
	return list
}

// change writes by how much a figure has changed.
func (say writer) change(current, before int64) string {
	share := float64(current-before) / float64(before)
	switch {
	case share > 0:
		return "+" + say.percent(share)
	case share < 0:
		return "−" + say.percent(-share)
	}
	return "±0 %"
}

// drawGlance adds the drawing of all days.
func (say writer) drawGlance(days []usage.Day, g glance, value func(usage.Day) int64) glance {
	most := 0
	for i, day := range days {
		if value(day) > value(days[most]) {
			most = i
		}
	}
	g.Width = len(days) * slot
	g.Path = bars(valuesOf(days, value), nil, float64(max(1, value(days[most]))), 1.5)
	g.Summary = say.Text("console.glance.summary", "Most", say.Number(value(days[most])), "Day", days[most].Day.Format(time.DateOnly),
		"Last", say.Number(value(days[len(days)-2])))
	return g
}
