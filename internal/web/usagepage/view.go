package usagepage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/usage"
)

// mostCards is how many clients are drawn on one page: the busiest. The others are in its table, each with a link.
const mostCards = 50

// view is the page.
type view struct {
	Hours     int
	Only      string // the client's id, on a page about one
	From, Now time.Time
	Clients   []clientView // with requests, the busiest first
	Quiet     []clientView // without
	Cards     []clientView // those of Clients that are drawn
}

// clientView is what a client asked, in words.
type clientView struct {
	ID, Name, Status string
	Policy           int // requests a minute
	figures
	Used, Peak  string // of the budget: in all, and in the busiest minute
	Full        bool   // the busiest minute took all of the budget
	Connections connectionsView
	Charts      []chart
	Operations  []operationView
	Rows        []hourView
	Width       int // of the plane of the charts
}

// figures are numbers as a person reads them. The flags are for numbers that an operator should see first.
type figures struct {
	Requests, LimitedShare, Limited, Refused, Failed string
	P50, P99                                         string
	AnyLimited, AnyFailed                            bool
}

type operationView struct {
	Name string
	figures
	Bars string
}

type hourView struct {
	At time.Time
	figures
	Peak string
}

type chart struct {
	Title, Unit string
	Summary     string // for those who do not see it
	Width       int
	Series      []series
	Scale       []string // from the top to the ground
	Line        string   // the height of a line across, empty for none
	Marks       []mark
	Keys        []key
	First, Half time.Time
}

// series is a path of one class of the style.
type series struct{ Class, Path string }

// mark is an hour under the pointer.
type mark struct {
	X     float64
	Title string
}

type key struct{ Class, Text string }

type connectionsView struct {
	Note       string // what the numbers are, where they are not exact
	Authorized string
	States     []stateView // none where nothing is known, or there is nothing
}

type stateView struct {
	Name, Count string
	X, Width    float64 // in the bar, of 100
}

// look makes the page of reports.
func look(reports []usage.Report, hours int, client uuid.UUID, now time.Time) view {
	v := view{Hours: hours, Now: now, From: now.Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)}
	if client != uuid.Nil {
		v.Only = client.String()
	}
	slices.SortStableFunc(reports, func(a, b usage.Report) int { return cmp.Compare(b.Total.Requests, a.Total.Requests) })
	for i, report := range reports {
		if report.Total.Requests == 0 {
			v.Quiet = append(v.Quiet, lookAt(report, false))
		} else {
			v.Clients = append(v.Clients, lookAt(report, i < mostCards))
		}
	}
	v.Cards = v.Clients[:min(len(v.Clients), mostCards)]
	return v
}

func lookAt(report usage.Report, draw bool) clientView {
	c := clientView{
		ID: report.ClientID.String(), Name: report.Name, Status: report.Status, Policy: report.RequestsPerMinute,
		figures: inWords(report.Total),
		Used:    percent(report.BudgetUsed()), Peak: percent(report.PeakBudgetUsed()), Full: report.PeakBudgetUsed() >= 1,
		Connections: lookAtConnections(report.Connections),
		Width:       len(report.Hours) * slot,
	}
	if !draw {
		return c
	}
	c.Charts = []chart{drawRequests(report), drawBudget(report), drawTimes(report)}
	most := int64(1)
	for _, operation := range report.Operations {
		for _, hour := range operation.Hours {
			most = max(most, hour.Requests)
		}
	}
	for _, operation := range report.Operations {
		c.Operations = append(c.Operations, operationView{operation.Name, inWords(operation.Total),
			bars(requestsOf(operation.Hours), nil, float64(most), 5)})
	}
	for _, hour := range slices.Backward(report.Hours) {
		if hour.Requests > 0 {
			peak := float64(hour.BusiestMinute) / float64(report.RequestsPerMinute)
			c.Rows = append(c.Rows, hourView{hour.Start, inWords(hour.Figures), percent(peak)})
		}
	}
	return c
}

func inWords(f usage.Figures) figures {
	return figures{
		Requests: thousands(f.Requests), Limited: thousands(f.RateLimited), LimitedShare: percent(f.RateLimitedShare()),
		Refused: thousands(f.Refused), Failed: thousands(f.Failed),
		P50: took(f.Quantile(.5)), P99: took(f.Quantile(.99)),
		AnyLimited: f.RateLimited > 0, AnyFailed: f.Failed > 0,
	}
}

func requestsOf(hours []usage.Figures) []float64 {
	values := make([]float64, len(hours))
	for i, hour := range hours {
		values[i] = float64(hour.Requests)
	}
	return values
}

// newChart has what every chart of a report has.
func newChart(report usage.Report, title, unit string) chart {
	return chart{Title: title, Unit: unit, Width: len(report.Hours) * slot,
		First: report.Hours[0].Start, Half: report.Hours[len(report.Hours)/2].Start}
}

// drawRequests stacks the requests of each hour by how they ended.
func drawRequests(report usage.Report) chart {
	c := newChart(report, "Requests", "an hour")
	most, at := int64(0), 0
	for i, hour := range report.Hours {
		if hour.Requests > most {
			most, at = hour.Requests, i
		}
	}
	top := niceAbove(most)
	floor := make([]float64, len(report.Hours))
	for _, part := range []struct {
		class, text string
		of          func(usage.Figures) int64
	}{
		{"answered", "answered", func(f usage.Figures) int64 { return f.Requests - f.RateLimited - f.Refused - f.Failed }},
		{"refused", "other 4xx", func(f usage.Figures) int64 { return f.Refused }},
		{"limited", "429", func(f usage.Figures) int64 { return f.RateLimited }},
		{"failed", "5xx", func(f usage.Figures) int64 { return f.Failed }},
	} {
		values := make([]float64, len(report.Hours))
		for i, hour := range report.Hours {
			values[i] = float64(part.of(hour.Figures))
		}
		c.Series = append(c.Series, series{part.class, bars(values, floor, float64(top), 1.5)})
		for i, value := range values {
			floor[i] += value
		}
		c.Keys = append(c.Keys, key{part.class, part.text})
	}
	c.Scale = []string{thousands(top), thousands(top / 2), "0"}
	c.Summary = fmt.Sprintf("Requests by hour: %s in all, the most in one hour %s, from %s UTC.",
		thousands(report.Total.Requests), thousands(most), report.Hours[at].Start.Format("Mon 2 Jan 15:04"))
	for i, hour := range report.Hours {
		f := inWords(hour.Figures)
		c.Marks = append(c.Marks, mark{float64(i) * slot, fmt.Sprintf("%s UTC: %s requests, %s of them 429, %s other 4xx, %s 5xx",
			hour.Start.Format("Mon 2 Jan 15:04"), f.Requests, f.Limited, f.Refused, f.Failed)})
	}
	return c
}

// drawBudget draws the busiest minute of each hour against the rate policy, which is a line.
func drawBudget(report usage.Report) chart {
	c := newChart(report, "Budget", "in each hour's busiest minute")
	policy := int64(report.RequestsPerMinute)
	values := make([]float64, len(report.Hours))
	for i, hour := range report.Hours {
		values[i] = float64(hour.BusiestMinute) / float64(policy)
		c.Marks = append(c.Marks, mark{float64(i) * slot, fmt.Sprintf("%s UTC: %s requests in the busiest minute, %s of %s",
			hour.Start.Format("Mon 2 Jan 15:04"), thousands(hour.BusiestMinute), percent(values[i]), thousands(policy))})
	}
	top, scale := 1.25, []string{"125 %", "", "0"}
	if report.PeakBudgetUsed() > top { // a burst comes on top of a minute's rate
		top = float64(niceAbove(int64(100*report.PeakBudgetUsed()))) / 100
		scale[0] = percent(top)
	}
	c.Scale, c.Line = scale, fmt.Sprintf("%.2f", height-height/top)
	c.Series = []series{{"budget", bars(values, nil, top, 1.5)}}
	c.Keys = []key{{"budget", "used"}, {"policy", thousands(policy) + " a minute"}}
	c.Summary = fmt.Sprintf("Budget used by hour: the busiest minute took %s of %s requests a minute.",
		percent(report.PeakBudgetUsed()), thousands(policy))
	return c
}

// drawTimes draws from the median to the 99th percentile of each hour.
func drawTimes(report usage.Report) chart {
	c := newChart(report, "Time to answer", "logarithmic")
	p50, p99 := make([]time.Duration, len(report.Hours)), make([]time.Duration, len(report.Hours))
	for i, hour := range report.Hours {
		p50[i], p99[i] = hour.Quantile(.5), hour.Quantile(.99)
		c.Marks = append(c.Marks, mark{float64(i) * slot, fmt.Sprintf("%s UTC: half within %s, 99 %% within %s",
			hour.Start.Format("Mon 2 Jan 15:04"), took(p50[i]), took(p99[i]))})
	}
	span, tick := spans(p50, p99)
	c.Series = []series{{"span", span}, {"median", tick}}
	c.Scale = []string{"10 s", "1 s", "100 ms", "10 ms", "1 ms"}
	c.Keys = []key{{"median", "p50"}, {"span", "to p99"}}
	c.Summary = fmt.Sprintf("Time to answer by hour: in all, half of the requests within %s and 99 %% within %s.",
		took(report.Total.Quantile(.5)), took(report.Total.Quantile(.99)))
	return c
}

func lookAtConnections(c usage.Connections) connectionsView {
	var v connectionsView
	prefix := ""
	switch c.Precision {
	case usage.Exact:
	case usage.Estimated:
		prefix, v.Note = "about ", "Estimated from a sample."
	case usage.AtLeast:
		prefix, v.Note = "at least ", "The first that were counted: there are more."
	case usage.Unknown:
		return connectionsView{Note: "Not counted: it took too long.", Authorized: "unknown"}
	}
	if c.Sum() == 0 {
		return connectionsView{Note: "No connections.", Authorized: "0"}
	}
	x := 0.0
	for _, state := range []struct {
		name string
		n    int64
	}{{"authorized", c.Authorized}, {"lapsed", c.Lapsed}, {"revoked", c.Revoked}, {"disconnected", c.Disconnected}} {
		width := 100 * float64(state.n) / float64(c.Sum())
		v.States = append(v.States, stateView{state.name, prefix + thousands(state.n), x, width})
		x += width
	}
	v.Authorized = v.States[0].Count
	return v
}
