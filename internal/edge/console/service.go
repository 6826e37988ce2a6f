package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/docs"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/alerts"
)

const servicePath = Path + "/service"

// guide explains what to do when an alert fires.
var guide = docs.Guide()

// serviceView shows the state of the service.
type serviceView struct {
	Facts
	Firing        []firing
	Growth, Queue *chart // nil without data
	Latencies     Optional[[]latencyView]
	Grew          string // by how much and since when, or empty if not known yet
}

// firing is an alert that fires on one or more servers.
type firing struct {
	alerts.Alert
	Hosts  []string
	Advice docs.Advice
}

func (c *console) showService(w http.ResponseWriter, r *http.Request) error {
	x := serviceView{Facts: c.Facts(r.Context())}
	x.Firing = x.firing()
	say := c.writer(r)
	if database := x.Database.Value; x.Database.Known {
		if grew, days, known := database.Growth(x.At); known && grew >= 0 {
			x.Grew = say.Text("console.service.database.grew", "Size", say.size(grew), "Count", days)
		} else if known {
			x.Grew = say.Text("console.service.database.shrank", "Size", say.size(-grew), "Count", days)
		}
		x.Growth = say.drawGrowth(x.Sizes())
	}
	if x.Webhooks.Value.Waiting > 0 {
		x.Queue = say.drawQueue(x.Webhooks.Value)
	}
	if latencies, err := c.Usage.Latencies(r.Context(), x.At.Add(-usage.LatenciesKept)); err == nil { // a page without them is better than none
		x.Latencies = Optional[[]latencyView]{Known: true, Value: say.latenciesOf(latencies, x.At)}
	}
	return c.write(w, r, "service", x)
}

// dismissServer forgets a server that is lost. If it reports again, it is there again.
func (c *console) dismissServer(w http.ResponseWriter, r *http.Request) error {
	form, err := site.ReadForm(w, r, "server")
	if err != nil {
		return err
	}
	id, err := uuid.Parse(form["server"])
	if err != nil {
		return site.ErrBadForm
	}
	return outcome(c.Dismiss(r.Context(), id), servicePath, "server_dismissed")
}

// firing returns the alerts of all running servers, pages before tickets.
func (x serviceView) firing() (list []firing) {
	add := func(host string, alert alerts.Alert) {
		i := slices.IndexFunc(list, func(f firing) bool { return f.Name == alert.Name && f.Summary == alert.Summary })
		if i < 0 {
			list = append(list, firing{Alert: alert, Advice: guide[alert.Name]})
			i = len(list) - 1
		}
		if alert.Since.Before(list[i].Since) {
			list[i].Since = alert.Since
		}
		if host = cmp.Or(alert.Server, host); !slices.Contains(list[i].Hosts, host) {
			list[i].Hosts = append(list[i].Hosts, host)
		}
	}
	for _, server := range x.Servers.Value {
		for _, alert := range server.Alerts {
			if server.ID != x.Self && !server.Lost() {
				add(server.Host, alert)
			}
		}
	}
	for _, alert := range x.Alerts { // newer than this server's row
		add(x.name(), alert)
	}
	slices.SortStableFunc(list, func(a, b firing) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Summary, b.Summary)) // page before ticket
	})
	return list
}

// AllCertificates returns the certificates of all servers that run, those of this one first.
func (x serviceView) AllCertificates() []Certificate {
	list := slices.Clone(x.Certificates)
	for i := range list {
		list[i].Server = x.name()
	}
	for _, server := range x.Servers.Value {
		for _, other := range []struct {
			listener string
			ends     *time.Time
		}{{"public", server.PublicCertificateEnds}, {"private", server.PrivateCertificateEnds}} {
			if other.ends != nil && server.ID != x.Self && !server.Lost() {
				list = append(list, Certificate{Server: server.Host, Listener: other.listener, NotAfter: *other.ends})
			}
		}
	}
	return list
}

// name returns the name of the server that makes the page.
func (x serviceView) name() string {
	if i := slices.IndexFunc(x.Servers.Value, func(s servers.Server) bool { return s.ID == x.Self }); i >= 0 {
		return x.Servers.Value[i].Host
	}
	return ""
}

// Soon reports whether a certificate ends within the time in which the alert ConnectCertificateEnds fires.
func (x serviceView) Soon(end time.Time) bool { return end.Sub(x.At) < 14*24*time.Hour }

// Left returns the time until an instant, or 0 if it has passed.
func (x serviceView) Left(end time.Time) time.Duration { return max(0, end.Sub(x.At)) }

// Sizes returns the sizes of the days before today, oldest first, and the current size.
func (x serviceView) Sizes() []servers.Size {
	today := x.At.UTC().Truncate(24 * time.Hour)
	sizes := slices.DeleteFunc(slices.Clone(x.Database.Value.Sizes), func(s servers.Size) bool { return !s.Day.Before(today) })
	return append(sizes, servers.Size{Day: today, Bytes: x.Database.Value.Bytes})
}

// drawGrowth draws the size of the database by day, from the first known day on.
func (say writer) drawGrowth(sizes []servers.Size) *chart {
	first, last := sizes[0].Day, sizes[len(sizes)-1]
	days := int(last.Day.Sub(first).Hours()/24) + 1
	if days < 2 {
		return nil
	}
	values, largest := make([]float64, days), int64(0)
	for _, size := range sizes {
		values[int(size.Day.Sub(first).Hours()/24)] = float64(size.Bytes)
		largest = max(largest, size.Bytes)
	}
	unit := int64(1)
	for largest/unit >= 1024 {
		unit *= 1024
	}
	top := niceAbove((largest+unit-1)/unit) * unit
	day := func(i int) string { return first.AddDate(0, 0, i).Format(time.DateOnly) }
	drawn := newChart(say.Text("console.service.database.size"), say.Text("console.service.database.by_day"), days, func(i int) string {
		if values[i] == 0 {
			return day(i) + ": –"
		}
		return day(i) + ": " + say.size(int64(values[i]))
	})
	drawn.stacked("size", say.Text("console.service.database.size"), values, make([]float64, days), float64(top))
	drawn.Scale = []string{say.size(top), say.size(top / 2), "0"}
	drawn.First, drawn.Half, drawn.Last = day(0), day(days/2), say.Text("console.chart.now")
	drawn.Summary = say.Text("console.service.database.summary", "From", day(0), "First", say.size(sizes[0].Bytes), "Last", say.size(last.Bytes))
	return &drawn
}

// drawQueue draws the waiting events by their age.
func (say writer) drawQueue(queue webhook.Queue) *chart {
	values, most := make([]float64, len(queue.Ages)), int64(1)
	for i, age := range queue.Ages {
		values[i], most = float64(age.Count), max(most, age.Count)
	}
	top := niceAbove(most)
	drawn := newChart(say.Text("console.service.queue.chart"), say.Text("console.service.queue.by_age"), len(values), func(i int) string {
		return say.age(queue.Ages[i]) + ": " + say.Number(queue.Ages[i].Count)
	})
	drawn.stacked("waiting", say.Text("console.service.queue.waiting"), values, make([]float64, len(values)), float64(top))
	drawn.Scale = []string{say.Number(top), say.Number(top / 2), "0"}
	drawn.First, drawn.Last = say.age(queue.Ages[0]), say.age(queue.Ages[len(queue.Ages)-1])
	drawn.Summary = say.Text("console.service.queue.summary", "Waiting", say.Number(queue.Waiting), "Oldest", say.duration(queue.Oldest))
	return &drawn
}

// age writes a range of waiting times.
func (say writer) age(age webhook.Age) string {
	if age.UpTo == 0 {
		return say.Text("console.service.queue.older")
	}
	return "≤ " + say.duration(age.UpTo)
}
