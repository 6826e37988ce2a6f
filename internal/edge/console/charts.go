package console

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/site"
)

// A chart has slot units of width for each slot, such as an hour, and a height of 100. The page stretches it.
const (
	slot   = 10.0
	gap    = 1.5 // between bars
	height = 100.0
)

// chart is a drawing of bars, which the template "chart" shows. The page has the same figures as a table.
type chart struct {
	Title, Unit       string
	Summary           string // for screen readers
	Width             int
	Series            []series
	Scale             []string // from the top to the ground
	Line              string   // the height of a line across, empty for none
	Marks             []mark
	Keys              []chartKey
	First, Half, Last string // below its slots
}

// series is a path of one class of the style.
type series struct{ Class, Path string }

// mark is a slot under the pointer.
type mark struct {
	X     float64
	Title string
}

type chartKey struct{ Class, Text string }

// newChart returns a chart without series. describe returns a slot's text.
func newChart(title, unit string, slots int, describe func(i int) string) chart {
	c := chart{Title: title, Unit: unit, Width: slots * slot}
	for i := range slots {
		c.Marks = append(c.Marks, mark{float64(i) * slot, describe(i)})
	}
	return c
}

// stacked adds a series with one bar for each value, on top of the series before it, and its key. Values are in units of top. floor
// holds the height at which the bars begin, and grows by them.
func (c *chart) stacked(class, text string, values, floor []float64, top float64) {
	c.Series = append(c.Series, series{class, bars(values, floor, top, 1.5)})
	c.Keys = append(c.Keys, chartKey{class, text})
	for i, value := range values {
		floor[i] += value
	}
}

// stack is a series of a chart: a number of each element of a list.
type stack[E any] struct {
	class, text string
	of          func(E) int64
}

// drawStack adds the series, one on top of the other, and their scale. It returns the element whose numbers have the largest sum.
func drawStack[E any](say writer, c *chart, list []E, series []stack[E]) (most E, sum int64) {
	sumOf := func(element E) (sum int64) {
		for _, s := range series {
			sum += s.of(element)
		}
		return sum
	}
	most = slices.MaxFunc(list, func(a, b E) int { return cmp.Compare(sumOf(a), sumOf(b)) })
	sum = sumOf(most)
	top, floor := niceAbove(sum), make([]float64, len(list))
	for _, s := range series {
		c.stacked(s.class, s.text, valuesOf(list, s.of), floor, float64(top))
	}
	c.Scale = []string{say.Number(top), say.Number(top / 2), say.Number(0)}
	return most, sum
}

// byOutcome has the requests of an element's figures.
func byOutcome[E any](say writer, figures func(E) usage.Figures) []stack[E] {
	return []stack[E]{
		{"answered", say.Text("console.usage.answered"), func(e E) int64 { f := figures(e); return f.Requests - f.RateLimited - f.Refused - f.Failed }},
		{"refused", say.Text("console.usage.other_4xx"), func(e E) int64 { return figures(e).Refused }},
		{"limited", "429", func(e E) int64 { return figures(e).RateLimited }},
		{"failed", "5xx", func(e E) int64 { return figures(e).Failed }},
	}
}

// outcomes writes requests by outcome.
func (say writer) outcomes(f usage.Figures) string {
	return say.Text("console.usage.requests.hour", "Requests", say.Number(f.Requests), "Limited", say.Number(f.RateLimited),
		"Refused", say.Number(f.Refused), "Failed", say.Number(f.Failed))
}

// onTimeAxis returns the height of a duration on a logarithmic axis of four decades, from 1 ms to 10 s.
func onTimeAxis(d time.Duration) float64 {
	ms := float64(d) / float64(time.Millisecond)
	return min(max(math.Log10(max(ms, 1e-6)), 0), 4) / 4 * height
}

// valuesOf returns one number for each element of a list.
func valuesOf[E any](list []E, value func(E) int64) []float64 {
	values := make([]float64, len(list))
	for i, element := range list {
		values[i] = float64(value(element))
	}
	return values
}

// bars draws a bar for each value, from the ground or from the floor. Values and floor are in units of top. The bar of a value that is
// not zero has a visible minimum height.
func bars(values, floor []float64, top, least float64) string {
	var path strings.Builder
	for i, value := range values {
		if value <= 0 {
			continue
		}
		start := 0.0
		if floor != nil {
			start = floor[i] / top * height
		}
		bar(&path, i, start, max(value/top*height, least))
	}
	return path.String()
}

// bar adds the rectangle of a slot, whose lower edge is bottom above the ground.
func bar(path *strings.Builder, i int, bottom, tall float64) {
	round := func(n float64) float64 { return math.Round(n*100) / 100 }
	width := slot - gap
	fmt.Fprintf(path, "M%v %vh%vv%vh%vz",
		round(float64(i)*slot+gap/2), round(max(height-bottom-tall, 0)), width, round(tall), -width)
}

// niceAbove returns a round number of at least n, and at least 4.
func niceAbove(n int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, factor := range []int64{4, 6, 8, 10, 20} {
			if power*factor >= n {
				return power * factor
			}
		}
	}
}

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
	say, days := c.writer(r), next.AddDate(0, 0, -1).Day()
	for _, dataset := range datasets {
		if drawn := say.drawMonth(m, dataset, days); drawn.Series != nil {
			m.Charts = append(m.Charts, drawn)
		}
	}
	return m, nil
}

// drawMonth draws what partners see of each day. If they see nothing, it draws nothing.
func (say writer) drawMonth(m month, dataset activity.Adjusted, days int) chart {
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
	c := newChart(say.Text("console.dataset."+string(dataset)), say.Text("console.month.unit."+string(dataset)), days, func(i int) string {
		return date(i) + ": " + say.Number(int64(seen[i]))
	})
	year := len("2006-")
	c.First, c.Half, c.Last = date(0)[year:], date(days / 2)[year:], date(days - 1)[year:]
	c.Summary = say.Text("console.month.summary", "Most", say.Number(most))
	if top := niceAbove(most); most > 0 {
		c.Scale = []string{say.Number(top), say.Number(top / 2), say.Number(0)}
		c.stacked("answered", say.Text("console.month.seen"), seen, make([]float64, days), float64(top))
	}
	return c
}

// cells are the figures of a day in a table, or empty.
type cells struct{ Label, Recorded, Adjusted, Seen string }

// cells returns the figures of a day. label names the first.
func (say writer) cells(label string, f activity.ViewedFigures) cells {
	c := cells{Label: label}
	if f.IsRecorded {
		c.Recorded = say.Number(f.Recorded)
	}
	if f.Adjusted != 0 {
		c.Adjusted = say.signed(int(f.Adjusted))
	}
	if f.Seen != nil {
		c.Seen = say.Number(*f.Seen)
	}
	return c
}

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
	if days[now].Connections().Sum() == 0 { // a day begins without a count
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

// latencyView is how long requests of an operation took, in eight days and in the last one.
type latencyView struct {
	usage.Latency                 // of the last 24 hours
	Hours         []usage.Latency // of which there were requests, the latest first
	Width         int
	Path, Summary string // the 95th percentile of each hour of eight days
}

// latenciesOf groups latencies by operation, those with most time in the last 24 hours first.
func (say writer) latenciesOf(list []usage.Latency, now time.Time) (views []latencyView) {
	first, hours := now.UTC().Truncate(time.Hour).Add(time.Hour-usage.LatenciesKept), int(usage.LatenciesKept/time.Hour)
	for len(list) > 0 {
		end := slices.IndexFunc(list, func(l usage.Latency) bool { return l.Operation != list[0].Operation })
		if end < 0 {
			end = len(list)
		}
		values, most := make([]float64, hours), list[0]
		var lately []usage.Latency
		for _, l := range list[:end] {
			place := int(l.Hour.Sub(first) / time.Hour)
			if place < 0 || place >= hours {
				continue
			}
			values[place] = float64(l.Quantile(.95))
			if l.Quantile(.95) > most.Quantile(.95) {
				most = l
			}
			if place >= hours-24 {
				lately = append(lately, l)
			}
		}
		sum := usage.SumOf(lately)
		sum.Operation = list[0].Operation
		slices.Reverse(lately)
		views = append(views, latencyView{
			Latency: sum, Hours: lately, Width: hours * slot, Path: bars(values, nil, max(1, slices.Max(values)), 1.5),
			Summary: say.Text("console.latency.summary", "Operation", sum.Operation, "Most", say.took(most.Quantile(.95)), "Hour", hour(most.Hour)),
		})
		list = list[end:]
	}
	slices.SortStableFunc(views, func(a, b latencyView) int { return int(b.Total - a.Total) })
	return views
}
