package console

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

// windows lists the windows of usage pages in hours.
var windows = map[string]int{"": 24, "24": 24, "168": 168}

// window is the time that a usage page covers.
type window struct {
	Hours      int
	Since, Now time.Time
	Filters    template.URL // of the list of partners
}

// windowOf reads the window from a query. Its last hour is the current one.
func (c *console) windowOf(query map[string]string) (window, error) {
	hours, known := windows[query["hours"]]
	if !known {
		return window{}, site.ErrBadForm
	}
	now := c.Now().UTC()
	return window{Hours: hours, Since: now.Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour), Now: now}, nil
}

// partnerUsage shows the usage of one partner.
type partnerUsage struct {
	aboutPartner
	Window window
	Report usage.Report
	Charts []chart
	Bars   []string // of the operations
}

// Width returns the width of the charts.
func (u partnerUsage) Width() int { return len(u.Report.Hours) * slot }

// Busy returns the hours with requests, newest first.
func (u partnerUsage) Busy() (hours []usage.Hour) {
	for _, hour := range slices.Backward(u.Report.Hours) {
		if hour.Requests > 0 {
			hours = append(hours, hour)
		}
	}
	return hours
}

// Peak returns the share of the budget that the busiest minute of an hour used.
func (u partnerUsage) Peak(hour usage.Hour) float64 {
	return float64(hour.BusiestMinute) / float64(u.Report.RequestsPerMinute)
}

func (c *console) showUsage(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "hours")
	if err != nil {
		return err
	}
	looked, err := c.windowOf(query)
	if err != nil {
		return err
	}
	report, err := c.Usage.Requests(r.Context(), partner.ID, looked.Since)
	if err != nil {
		return err
	}
	u := partnerUsage{aboutPartner: aboutPartner{partner, "usage"}, Window: looked, Report: report}
	if report.Total.Requests == 0 {
		return c.write(w, r, "partner-usage", u)
	}
	say, form := c.writer(r), "15:04"
	if looked.Hours > 24 {
		form = "01-02 15:04"
	}
	u.Charts = []chart{say.drawRequests(report), say.drawBudget(report), say.drawTimes(report)}
	for i := range u.Charts {
		c := &u.Charts[i]
		c.First, c.Half = report.Hours[0].Start.Format(form), report.Hours[len(report.Hours)/2].Start.Format(form)
		c.Last = say.Text("console.chart.now")
	}
	requests := func(f usage.Figures) int64 { return f.Requests }
	top := 1.0
	for _, operation := range report.Operations {
		top = max(top, slices.Max(valuesOf(operation.Hours, requests)))
	}
	for _, operation := range report.Operations {
		u.Bars = append(u.Bars, bars(valuesOf(operation.Hours, requests), nil, top, 5))
	}
	return c.write(w, r, "partner-usage", u)
}

// byHour returns a chart without series. describe returns an hour's text.
func (say writer) byHour(report usage.Report, name string, describe func(usage.Hour) string) chart {
	return newChart(say.Text("console.usage."+name+".title"), say.Text("console.usage."+name+".unit"), len(report.Hours), func(i int) string {
		return hour(report.Hours[i].Start) + " UTC: " + describe(report.Hours[i])
	})
}

// drawRequests stacks the requests of each hour by outcome.
func (say writer) drawRequests(report usage.Report) chart {
	c := say.byHour(report, "requests", func(h usage.Hour) string { return say.outcomes(h.Figures) })
	busiest, most := drawStack(say, &c, report.Hours, byOutcome(say, func(h usage.Hour) usage.Figures { return h.Figures }))
	c.Summary = say.Text("console.usage.requests.summary", "Requests", say.Number(report.Total.Requests), "Most", say.Number(most),
		"Hour", hour(busiest.Start))
	return c
}

// drawBudget draws the busiest minute of each hour against the rate policy, which is a line.
func (say writer) drawBudget(report usage.Report) chart {
	policy := int64(report.RequestsPerMinute)
	c := say.byHour(report, "budget", func(h usage.Hour) string {
		return say.Text("console.usage.budget.hour", "Requests", say.Number(h.BusiestMinute), "Policy", say.Number(policy),
			"Share", say.percent(float64(h.BusiestMinute)/float64(policy)))
	})
	top := 1.25
	if peak := report.PeakBudgetUsed(); peak > top { // a burst adds to a minute's rate
		top = float64(niceAbove(int64(100*peak))) / 100
	}
	values := valuesOf(report.Hours, func(h usage.Hour) int64 { return h.BusiestMinute })
	c.Scale = []string{say.percent(top), "", say.percent(0)}
	c.Line = fmt.Sprintf("%.2f", height-height/top)
	c.Series = []series{{"budget", bars(values, nil, top*float64(policy), 1.5)}}
	c.Keys = []chartKey{{"budget", say.Text("console.usage.used")}, {"policy", say.Text("console.usage.a_minute", "Requests", say.Number(policy))}}
	c.Summary = say.Text("console.usage.budget.summary", "Share", say.percent(report.PeakBudgetUsed()), "Policy", say.Number(policy))
	return c
}

// drawTimes draws the median of each hour, and the span from there to the 99th percentile, on a logarithmic axis.
func (say writer) drawTimes(report usage.Report) chart {
	c := say.byHour(report, "times", func(h usage.Hour) string {
		return say.Text("console.usage.times.hour", "Half", say.took(h.Quantile(.5)), "Most", say.took(h.Quantile(.99)))
	})
	var span, median strings.Builder
	for i, hour := range report.Hours {
		if hour.Requests > 0 {
			low, high := onTimeAxis(hour.Quantile(.5)), onTimeAxis(hour.Quantile(.99))
			bar(&span, i, low, max(high-low, 1))
			bar(&median, i, max(low-1.5, 0), 3)
		}
	}
	c.Series = []series{{"span", span.String()}, {"median", median.String()}}
	c.Scale = []string{"10 s", "1 s", "100 ms", "10 ms", "1 ms"}
	c.Keys = []chartKey{{"median", "p50"}, {"span", say.Text("console.usage.to_p99")}}
	c.Summary = say.Text("console.usage.times.summary", "Half", say.took(report.Total.Quantile(.5)), "Most", say.took(report.Total.Quantile(.99)))
	return c
}

// refusedList is a page of a partner's refused requests, newest first.
type refusedList struct {
	aboutPartner
	Kinds   []usage.ErrorCount // on the first page of the whole list
	Fields  []field            // of the filter
	Explain string             // the address of the page about codes, or empty
	Rows    []usage.ClientError
	Pages   pages
}

// Only is the address of the list of one kind.
func (refusedList) Only(k usage.ErrorCount) string {
	return "?" + url.Values{"operation": {k.Operation}, "code": {k.Code}, "status": {strconv.Itoa(k.Status)}}.Encode()
}

// LastID returns the request id of the last of equal requests, empty if it is not known.
func (refusedList) LastID(e usage.ClientError) string {
	if len(e.RequestIDs) == 0 {
		return ""
	}
	return e.RequestIDs[len(e.RequestIDs)-1].String()
}

func (c *console) listRefused(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	query, err := parseQuery(r, "operation", "status", "code", "grant", "request")
	if err != nil {
		return err
	}
	say := c.writer(r)
	list := refusedList{aboutPartner: aboutPartner{partner, "refused"}, Explain: c.CodesPage, Fields: []field{
		{Name: "operation", Label: say.HTML("console.usage.operation")}, {Name: "status", Label: say.HTML("console.webhook.status")},
		{Name: "code", Label: say.HTML("console.refused.code")}, {Name: "grant", Label: say.HTML("console.connection.grant_id")},
		{Name: "request", Label: say.HTML("console.refused.request_id")},
	}}
	for i, f := range list.Fields {
		list.Fields[i].Value = query[f.Name]
	}
	// No request has a malformed id or status, or the nil UUID.
	filter := usage.ErrorFilter{Operation: query["operation"], Code: query["code"]}
	var malformed error
	if query["status"] != "" {
		filter.Status, malformed = strconv.Atoi(query["status"])
	}
	for name, id := range map[string]*uuid.UUID{"request": &filter.RequestID, "grant": &filter.GrantID} {
		if query[name] != "" {
			if *id, _ = uuid.Parse(query[name]); *id == uuid.Nil {
				malformed = site.ErrNotFound
			}
		}
	}
	if malformed != nil || filter.Status < 0 || filter.Status > 599 || filter.Status == 0 && query["status"] != "" {
		return c.write(w, r, "refused", list)
	}
	list.Rows, list.Pages, err = listing(r, firstCursor, "refused requests", func(after page.Key, limit int) ([]usage.ClientError, error) {
		return c.Usage.Errors(r.Context(), partner.ID, filter, after, limit)
	}, usage.ClientError.Key)
	if err == nil && r.URL.RawQuery == "" {
		list.Kinds, err = c.Usage.ErrorCounts(r.Context(), partner.ID)
	}
	if err != nil {
		return err
	}
	return c.write(w, r, "refused", list)
}

// partnerLog is a page of what was done with a partner, newest first. It names no user and no operator.
type partnerLog struct {
	aboutPartner
	logPage
	grants
}

// ActorOf names who acted, as far as the partner knows them.
func (partnerLog) ActorOf(e audit.Event) string {
	e = asActed(e)
	if slices.Contains([]string{"user", "client", "system"}, e.Actor) || strings.HasPrefix(e.Actor, "partner:") {
		return e.Actor
	}
	return work.AnyOperator
}

func (c *console) showLog(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	entries, err := c.search(r, "log", audit.Filter{ClientID: partner.ID})
	if err != nil {
		return err
	}
	x := partnerLog{aboutPartner: aboutPartner{partner, "log"}, logPage: entries}
	if x.grants, err = c.grantsOf(r.Context(), partner, x.Rows); err != nil {
		return err
	}
	return c.write(w, r, "partner-log", x)
}
