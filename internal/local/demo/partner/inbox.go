package partner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/webhook"
)

const (
	mostWaiting  = 1000 // events that wait for Run
	mostReceived = 12   // calls that the page shows
	mostSeen     = 10_000
)

// errFull: there is no room for another event.
var errFull = errors.New("too much to do")

// received is one call to the webhook address, in words for a person.
type received struct {
	At       time.Time
	Verified bool
	Type     string // or why it was refused
	About    string // the member, by name
	Detail   string // the reason, or the datasets and dates, as the contract writes them
	Outcome  string // what was done
	Again    int    // how often the same event came once more
	Call     exchange
}

// task is an event that waits for Run.
type task struct {
	event webhook.Event
	row   *received
}

type callKey struct{}

// receive shows a call to a person, and has [Connector.Webhook] take it.
func (p *Partner) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostRecorded+1))
	rest := io.Reader(r.Body)
	if err != nil {
		rest = broken{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	row := &received{Type: "refused", Call: exchange{
		Summary: summary(r.Method, r.URL), Request: requestText(r.Method, r.URL, r.Header) + "\n\n" + maskBody(body),
	}.clipped()}
	answer := &answered{ResponseWriter: w}
	p.connector.Webhook(answer, r.WithContext(context.WithValue(r.Context(), callKey{}, row)))
	if answer.status == http.StatusUnauthorized {
		row.answered(answer.status, answer.body.String())
		row.Detail = strings.TrimSpace(answer.body.String())
		p.mu.Lock()
		defer p.mu.Unlock()
		p.note(row)
	}
}

func (row *received) answered(status int, body string) {
	row.Call.Summary += fmt.Sprintf(" → %d", status)
	row.Call.Answer = strings.TrimSpace(answerText(status, nil, nil) + "\n\n" + maskAll(body))
}

// answered notes what is answered.
type answered struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(text []byte) (int, error) {
	a.body.Write(text)
	return a.ResponseWriter.Write(text)
}

// putAside takes each event once. What waits here is lost when the process ends.
func (p *Partner) putAside(ctx context.Context, event webhook.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	row, _ := ctx.Value(callKey{}).(*received)
	row.Verified = true
	if before, seen := p.seen[event.WebhookID()]; seen {
		before.Again++
		return nil
	}
	p.describe(row, event)
	row.answered(http.StatusNoContent, "") // by [Connector.Webhook], if there is room
	select {
	case p.inbox <- task{event, row}:
	default:
		return errFull
	}
	if len(p.seen) >= mostSeen {
		clear(p.seen)
	}
	p.seen[event.WebhookID()] = row
	p.note(row)
	return nil
}

// note shows a call on the page. The caller holds the lock.
func (p *Partner) note(row *received) {
	row.At = time.Now()
	p.received = slices.Insert(p.received, 0, row)
	p.received = p.received[:min(len(p.received), mostReceived)]
}

func (p *Partner) describe(row *received, event webhook.Event) {
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		row.Type, row.Detail, row.About = string(event.Type), string(event.Data.Reason), p.nameOf(event.Data.GrantId)
	case webhook.ActivityUpdated:
		row.Type, row.About = string(event.Type), p.nameOf(event.Data.GrantId)
		row.Detail = datasets(event.Data.Datasets) + ", " + days(event.Data.From.Time, event.Data.To.Time)
	case webhook.Unknown:
		row.Type = event.Type
	}
}

func (p *Partner) nameOf(grant uuid.UUID) string {
	key, _ := p.store.memberOf(context.Background(), grant)
	member, _ := p.member(key)
	return member.Name
}

func datasets(names []connectsdk.Dataset) string {
	var text []string
	for _, name := range names {
		text = append(text, string(name))
	}
	return strings.Join(text, ", ")
}

func days(from, to time.Time) string {
	const day = "2 Jan"
	if from.Equal(to) {
		return from.Format(day)
	}
	return from.Format(day) + " to " + to.Format(day)
}

// Run works on what was put aside until ctx ends.
func (p *Partner) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-p.inbox:
			p.work(ctx, t)
		}
	}
}

// work has [Connector.Work] do what an event asks for, and says so.
func (p *Partner) work(ctx context.Context, t task) {
	outcome, member, err := p.connector.Work(ctx, t.event)
	text := outcomes[outcome]
	if err == nil {
		err = p.noteReason(member, t.event)
	}
	if err != nil {
		text = "This could not be worked on: the connection cannot be stored."
	}
	p.mu.Lock()
	t.row.Outcome = text
	call := t.row.Call
	p.mu.Unlock()
	if event, is := t.event.(webhook.ConnectionRevoked); is && outcome == Ended {
		p.tell(member, told(event.Data.Reason, call))
	}
}

// noteReason keeps why a connection is over, for the page.
func (p *Partner) noteReason(member string, event webhook.Event) error {
	revoked, is := event.(webhook.ConnectionRevoked)
	if !is || member == "" {
		return nil
	}
	return p.store.note(member, func(k *kept) {
		reason := revoked.Data.Reason
		forgotten := reason == connectsdk.ConnectionRevokedDataReasonUserDisconnected || reason == connectsdk.ConnectionRevokedDataReasonAccountDeleted
		if k.over() && k.Version == revoked.Data.ConnectionVersion && (forgotten || k.Why == "") {
			k.Why, k.Forgotten = because(reason), forgotten
		}
	})
}

var outcomes = map[Outcome]string{
	Unknown:  "Nothing that is known here: ignored.",
	Outdated: "About a connection that is over or was made again: ignored.",
	Ended:    "The keys were thrown away.",
	Changed:  "This page reads it when it is shown next.",
}

// shownCalls are the newest first, for the page.
func (p *Partner) shownCalls(zone *time.Location) []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rows []received
	for _, row := range p.received {
		shown := *row
		shown.At = shown.At.In(zone)
		rows = append(rows, shown)
	}
	return rows
}

// showReceived is the part of the page that its script asks for again and again.
func (p *Partner) showReceived(w http.ResponseWriter, r *http.Request) {
	_, member := p.session(w, r)
	var part bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&part, "received", p.shownCalls(member.Timezone)); err != nil {
		http.Error(w, "the list cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Connection-State", p.state(member.Key))
	_, _ = part.WriteTo(w)
}
