package partner

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// Logo is the file with the company's logo.
//
//go:embed logo.svg
var Logo []byte

//go:embed page.html style.css received.js
var files embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"day":        func(t time.Time) string { return t.Format("2 January 2006") },
	"clock":      func(t time.Time) string { return t.Format("15:04:05") },
	"count":      count,
	"thousands":  thousands,
	"kilometers": kilometers,
}).ParseFS(files, "page.html"))

// patientFor bounds the time that a page waits for the service.
const patientFor = 20 * time.Second

type view struct {
	Member   Member
	Members  []Member
	MailPage string
	State    string // none, connected or over
	Held     connect.Connection
	Ending   ending
	Notice   *step // the latest failure
	Live     bool
	Reading  *reading
	Calls    []received // to the webhook address
	Story    [][]step   // chapters, newest first
}

// Uncertain reports that a refresh may have used up its token.
func (v view) Uncertain() bool { return v.Held.State == connect.StateUncertain }

type reading struct {
	At                       time.Time
	StepsTotal, CyclingTotal int64
	StepsChart, CyclingChart chart
	Rides                    []ride // newest first
	Pages                    int    // of rides
}

type ride struct{ Date, Start, Lasted, Distance string }

func (p *Partner) page(w http.ResponseWriter, r *http.Request) {
	_, member := p.session(w, r)
	v := view{Notice: p.notice(member.Key)}
	if held, state, _ := p.held(r.Context(), member.Key); state == "connected" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patientFor) // a browser that leaves is not a failure
		defer cancel()
		var failed *step
		v.Reading, failed = p.read(ctx, member, held.HistoryFrom)
		v.Notice = cmp.Or(v.Notice, failed)
		v.Live = failed == nil && r.URL.Query().Has("live")
	}
	p.write(w, r, http.StatusOK, member, v)
}

func (p *Partner) write(w http.ResponseWriter, r *http.Request, status int, member Member, v view) {
	v.Member, v.Members, v.MailPage = member, p.config.Members, p.config.MailPage
	var err error
	if v.Held, v.State, err = p.held(r.Context(), member.Key); err != nil {
		http.Error(w, "the connections cannot be read", http.StatusInternalServerError)
		return
	}
	v.Calls, v.Story = p.shownCalls(member), p.story(member)
	p.mu.Lock()
	v.Ending = p.endings[ended{member.Key, v.Held.Version}]
	p.mu.Unlock()
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, v); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	p.send(w, status, page)
}

// send sends HTML in which the service has its name.
func (p *Partner) send(w http.ResponseWriter, status int, page bytes.Buffer) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	name := template.HTMLEscapeString(cmp.Or(p.config.Service, serviceName))
	_, _ = strings.NewReplacer(serviceName, name).WriteString(w, page.String()) // fails only if nobody reads it any more
}

func drawn(a Activity, at, first, historyFrom, last time.Time) *reading {
	r := &reading{At: at, Pages: a.Pages}
	steps, meters := map[time.Time]int64{}, map[time.Time]int64{}
	for _, row := range a.Steps {
		steps[row.Date.Time] = row.Steps
		r.StepsTotal += row.Steps
	}
	for _, row := range a.Cycling {
		meters[row.Date.Time] = row.DistanceMeters
		r.CyclingTotal += row.DistanceMeters
	}
	r.StepsChart = draw(stepsUnit, first, historyFrom, last, steps)
	r.CyclingChart = draw(metersUnit, first, historyFrom, last, meters)
	for _, recorded := range slices.Backward(a.Rides) {
		r.Rides = append(r.Rides, rideOf(recorded))
	}
	return r
}

func rideOf(recorded connectsdk.CyclingActivity) ride {
	const layout = "2006-01-02T15:04:05.000000" // of an unzoned recorded clock
	row := ride{Date: recorded.Date.Format("Mon 2 Jan"), Lasted: "unknown", Distance: kilometers(recorded.DistanceMeters) + " km"}
	start, err := time.Parse(layout, recorded.RecordedStartTime)
	if err != nil {
		return row
	}
	row.Start = start.Format("15:04")
	if recorded.RecordedEndTime != nil {
		if end, err := time.Parse(layout, *recorded.RecordedEndTime); err == nil {
			row.Lasted = strings.TrimSuffix(end.Sub(start).Round(time.Minute).String(), "0s")
		}
	}
	return row
}

// headers sets the headers of every response. The policy of forms allows the service, because the form that connects is redirected
// there.
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
