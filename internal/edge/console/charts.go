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
