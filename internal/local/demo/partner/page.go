package partner

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

//go:embed page.html style.css received.js
var files embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"day":   func(t time.Time) string { return t.Format("2 January 2006") },
	"clock": func(t time.Time) string { return t.Format("15:04:05") },
}).ParseFS(files, "page.html"))

// patientFor bounds what a page waits for the service.
const patientFor = 20 * time.Second

// view is what the page shows.
type view struct {
	Member   Member
	Members  []Member
	MailPage string
	State    string // none, connected or over
	kept
	Notice  *step // what went wrong just now
	Live    bool
	Reading *readingView
	Calls   []received // to the webhook address
	Story   [][]step   // by chapters, the newest first
}

// Uncertain reports that a refresh may have used up its token.
func (v view) Uncertain() bool { return v.kept.State == connect.StateUncertain }

type readingView struct {
	reading
	StepsTotal, CyclingTotal string
	StepsChart, CyclingChart chart
	RideRows                 []rideRow
}

type rideRow struct{ Date, Start, Lasted, Distance string }

func (p *Partner) page(w http.ResponseWriter, r *http.Request) {
	id, member := p.session(w, r)
	v := view{Notice: p.takeNotice(id)}
	if k, found := p.store.get(member.Key); found && !k.over() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patientFor) // who leaves has no trouble to be told of
		defer cancel()
		reading, wrong := p.read(ctx, member, k)
		if wrong == nil {
			v.Reading, v.Live = present(reading, k.HistoryFrom.Time), r.URL.Query().Has("live")
		} else {
			v.Notice = cmp.Or(v.Notice, wrong)
		}
	}
	p.show(w, http.StatusOK, member, v)
}

// show adds what all pages have.
func (p *Partner) show(w http.ResponseWriter, status int, member Member, v view) {
	v.Member, v.Members, v.MailPage = member, p.config.Members, p.config.MailPage
	v.kept, _ = p.store.get(member.Key)
	v.ConnectedAt = v.ConnectedAt.In(member.Timezone)
	v.State, v.Calls, v.Story = p.state(member.Key), p.shownCalls(member.Timezone), p.story(member)
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, v); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
}

// present turns rows into what the page draws.
func present(r reading, historyFrom time.Time) *readingView {
	steps, meters := map[time.Time]int64{}, map[time.Time]int64{}
	var allSteps, allMeters int64
	for _, row := range r.Steps {
		steps[row.Date.Time] = row.Steps
		allSteps += row.Steps
	}
	for _, row := range r.Cycling {
		meters[row.Date.Time] = row.DistanceMeters
		allMeters += row.DistanceMeters
	}
	first := r.To.AddDate(0, 0, 1-mostDates)
	v := &readingView{
		reading:    r,
		StepsTotal: thousands(allSteps), CyclingTotal: kilometers(allMeters),
		StepsChart:   draw(stepsUnit, first, historyFrom, r.To, steps),
		CyclingChart: draw(metersUnit, first, historyFrom, r.To, meters),
	}
	for i := len(r.Rides) - 1; i >= 0; i-- { // newest first for a person
		v.RideRows = append(v.RideRows, rowOf(r.Rides[i]))
	}
	return v
}

// recorded is how the service writes a recorded clock, which has no zone.
const recorded = "2006-01-02T15:04:05.000000"

func rowOf(ride connectsdk.CyclingActivity) rideRow {
	row := rideRow{Date: ride.Date.Format("Mon 2 Jan"), Lasted: "unknown", Distance: kilometers(ride.DistanceMeters)}
	start, err := time.Parse(recorded, ride.RecordedStartTime)
	if err != nil {
		return row
	}
	row.Start = start.Format("15:04")
	if ride.RecordedEndTime != nil {
		if end, err := time.Parse(recorded, *ride.RecordedEndTime); err == nil {
			row.Lasted = strings.TrimSuffix(end.Sub(start).Round(time.Minute).String(), "0s")
		}
	}
	return row
}

func serveFile(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, files, r.URL.Path[1:])
}

// headers are those of every answer. The form that connects is redirected to the service, which browsers take for a
// form that is sent there.
func headers(issuer string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self' "+issuer+
			"; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
