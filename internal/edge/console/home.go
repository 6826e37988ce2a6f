package console

import (
	"net/http"
	"time"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/alerts"
	"github.com/google/uuid"
)

// daysShown is how many days the figures of the home page and of a partner cover, with today.
const daysShown = 35

// mostInNeed is how many partners the home page lists that need attention.
const mostInNeed = 10

// homeView shows what happens and what needs attention.
type homeView struct {
	Firing  []firing
	InNeed  []partnerInNeed
	More    bool  // partners are in need than are listed
	Changes int64 // requests of partners that wait
	Days    daysView
	Glances []glance // none if nothing happened
}

// daysView shows the figures of today, yesterday and all days.
type daysView struct {
	Today, Yesterday, All usage.Day
	Charts                []chart // none without a request
	days                  []usage.Day
	Figures               []string // to show; without a request, those that are not zero
}

// allFigures are the figures of days, in their order.
var allFigures = []string{
	"requests", "limited", "refused", "failed", "p50", "p99", "active_users", "active_partners", "made", "refreshed", "lapsed", "revoked",
	"disconnected", "codes", "delivered", "given_up",
}

// partnerInNeed is a partner with what is wrong, in words.
type partnerInNeed struct {
	usage.InNeed
	Wrong []string
}

func (c *console) showHome(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	x := homeView{Firing: serviceView{Facts: c.Alerts(r.Context())}.firing()}
	var err error
	if x.Days, err = c.lastDays(r, uuid.Nil); err != nil {
		return err
	}
	if len(x.Days.Figures) > 0 {
		x.Glances = c.writer(r).glances(x.Days.days)
	}
	if x.Changes, err = c.Clients.CountChanges(r.Context()); err != nil {
		return err
	}
	inNeed, err := c.Usage.InNeed(r.Context(), mostInNeed+1)
	x.More = len(inNeed) > mostInNeed
	for _, partner := range inNeed[:min(len(inNeed), mostInNeed)] {
		x.InNeed = append(x.InNeed, partnerInNeed{partner, c.writer(r).wrong(partner.Day)})
	}
	if err != nil {
		return err
	}
	return c.write(w, r, "home", x)
}

// lastDays returns the figures of the last days of a partner, or of all with uuid.Nil.
func (c *console) lastDays(r *http.Request, partner uuid.UUID) (daysView, error) {
	report, err := c.Usage.DaysOf(r.Context(), partner, c.Now().AddDate(0, 0, 1-daysShown))
	if err != nil {
		return daysView{}, err
	}
	last := len(report.Days) - 1
	x := daysView{Today: report.Days[last], Yesterday: report.Days[last-1], All: report.Total, days: report.Days}
	say := c.writer(r)
	for _, name := range allFigures {
		if (partner == uuid.Nil || name != "active_partners") && (x.All.Requests > 0 || say.figure(name, x.All) != say.figure(name, usage.Day{})) {
			x.Figures = append(x.Figures, name)
		}
	}
	if report.Total.Requests > 0 {
		requests := say.drawDays(report.Days, "requests", func(d usage.Day) string { return say.outcomes(d.Figures()) }, byOutcome(say, usage.Day.Figures))
		x.Charts = []chart{requests, say.drawConnections(report.Days)}
	}
	return x, nil
}

// wrong says what is wrong with a day.
func (words writer) wrong(day usage.Day) (texts []string) {
	say := func(ok bool, key string, args ...any) {
		if ok {
			texts = append(texts, words.Text("console.home.wrong."+key, args...))
		}
	}
	say(day.WebhooksFailed > 0, "webhooks", "Count", day.WebhooksFailed)
	say(day.Replayed > 0, "replayed", "Count", day.Replayed)
	say(day.Failed > 0, "failed", "Count", day.Failed)
	say(day.RateLimited > 0, "limited", "Share", words.percent(day.Figures().RateLimitedShare()))
	return texts
}

// drawDays draws numbers of each day, one on top of the other. describe returns a day's text.
func (say writer) drawDays(days []usage.Day, name string, describe func(usage.Day) string, series []stack[usage.Day]) chart {
	dayOf := func(i int) string { return days[i].Day.Format(time.DateOnly) }
	c := newChart(say.Text("console.home.chart."+name+".title"), say.Text("console.home.by_day"), len(days), func(i int) string {
		return dayOf(i) + ": " + describe(days[i])
	})
	c.First, c.Half, c.Last = dayOf(0), dayOf(len(days)/2), say.Text("console.chart.now")
	most, sum := drawStack(say, &c, days, series)
	c.Summary = say.Text("console.home.most", "Title", c.Title, "Number", say.Number(sum), "Day", most.Day.Format(time.DateOnly))
	return c
}

// drawConnections stacks the connections that were made and that ended on each day.
func (say writer) drawConnections(days []usage.Day) chart {
	return say.drawDays(days, "connections", func(d usage.Day) string {
		return say.Text("console.home.chart.connections.day", "Made", say.Number(d.Authorized), "Ended", say.Number(ended(d)))
	}, []stack[usage.Day]{
		{"answered", say.Text("console.home.made"), func(d usage.Day) int64 { return d.Authorized }},
		{"refused", say.Text("console.home.ended"), ended},
	})
}

func ended(d usage.Day) int64 { return d.Lapsed + d.Revocations() + d.Disconnects() }

// figure writes a figure of a day.
func (say writer) figure(name string, d usage.Day) string {
	counts := map[string]int64{
		"requests": d.Requests, "refused": d.Refused, "failed": d.Failed, "active_users": d.ActiveUsers, "active_partners": d.ActiveClients,
		"made": d.Authorized, "refreshed": d.Refreshed, "lapsed": d.Lapsed, "revoked": d.Revocations(), "disconnected": d.Disconnects(),
		"delivered": d.WebhooksDelivered, "given_up": d.WebhooksFailed,
	}
	switch name {
	case "limited":
		return say.percent(d.Figures().RateLimitedShare())
	case "p50":
		return say.took(d.Figures().Quantile(.5))
	case "p99":
		return say.took(d.Figures().Quantile(.99))
	case "codes":
		return say.Text("console.home.sent_tried", "Sent", say.Number(d.CodesSent), "Tried", say.Number(d.CodesTried))
	}
	return say.Number(counts[name])
}

// Facts describe the service at an instant. Answers of other systems may be missing.
type Facts struct {
	At              time.Time
	Version, Commit string // of this server's program
	Go, Contract    string // versions of Go and of the partner API
	Self            uuid.UUID
	Alerts          []alerts.Alert // that fire on this server
	Servers         Optional[[]servers.Server]
	Migrations      Optional[Migrations]
	Database        Optional[servers.Database]
	Certificates    []Certificate
	Keys            Optional[[]Key]
	Mail            Mail
	MailWaiting     Optional[MailWaiting]
	Webhooks        Optional[webhook.Queue]
	Redis           bool                    // or Valkey is the store of the rate policy; else PostgreSQL
	Limiter         Optional[time.Duration] // how long that store took to answer
	Clock           servers.Clock           // of the database, as this server sees it
	Replicas        []Replica
	Reload          Reload
}

// Optional is the answer of another system, which may not have answered in time.
type Optional[T any] struct {
	Known bool
	Value T
}

// Migrations are the newest one that was applied, and the newest one that the program has.
type Migrations struct{ Applied, Known int64 }

// Certificate of a listener. Of another server, its names and its problem are unknown.
type Certificate struct {
	Server   string   // its name; empty in [Facts], which have this server's
	Listener string   // public or private
	Names    []string // and addresses
	NotAfter time.Time
	Problem  string // why no caller can connect with it, or empty
}

// Reload is the last time that this server read its settings again. The zero value: never since its start.
type Reload struct {
	At      time.Time
	Problem string // settings that could not be used, or empty
}

// Key is one of the keyset, without its material.
type Key struct {
	ID     string
	Status string    // next, primary, retired or identifiers
	Since  time.Time // its first use by a server, or zero if it is not known or not used yet
}

// Mail counts this server's emails since its start.
type Mail struct {
	Sent, Failed uint64
	Used         bool   // there was a session with the mail server
	Trouble      string // why the last email failed, or empty if it was sent
}

// MailWaiting are the emails that wait on all servers.
type MailWaiting struct {
	Count  int
	Oldest time.Duration
}

// Replica answers reads of activity.
type Replica struct {
	Name string        // host:port
	Used bool          // it is current
	Lag  time.Duration // how old its rows are at most, 0 if it is not used
}
