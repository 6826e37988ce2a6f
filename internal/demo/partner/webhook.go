package partner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "connect-svc/gen/sdk/go"
	"connect-svc/gen/sdk/go/webhook"
)

// WebhookPath is the path of the address that the operator configures.
const WebhookPath = "/webhooks"

const (
	mostBody     = 64 << 10 // bytes; an event has some hundred
	mostWaiting  = 1000     // events that wait for Run
	mostReceived = 12       // calls that the page shows
	mostSeen     = 10_000
)

// received is one call to the webhook address, in words for a person.
type received struct {
	At       time.Time
	Verified bool
	Type     string // or why it was refused
	About    string // the member, by name
	Detail   string // the reason, or the datasets and dates, as the contract writes them
	Outcome  string // what was done
	Again    int    // how often the same event came once more
}

// task is an event that waits for Run.
type task struct {
	event webhook.Event
	row   *received
}

// receive takes one call: it verifies, puts the event aside and answers. Run does the work.
func (p *Partner) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	event, err := webhook.VerifyAt(p.config.WebhookSecret, r.Header, body, p.now())
	if err != nil {
		p.mu.Lock()
		p.note(&received{At: p.now(), Type: "refused", Detail: err.Error()})
		p.mu.Unlock()
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	if !p.putAside(event) {
		http.Error(w, "too much to do", http.StatusServiceUnavailable) // it will come again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// putAside takes each event once. It is false where there is no room. A company would have a table for this, whose key
// is the webhook-id: what waits here is lost when the process ends.
func (p *Partner) putAside(event webhook.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, seen := p.seen[event.WebhookID()]; seen {
		before.Again++
		return true
	}
	row := p.describe(event)
	select {
	case p.inbox <- task{event, row}:
	default:
		return false
	}
	if len(p.seen) >= mostSeen {
		clear(p.seen)
	}
	p.seen[event.WebhookID()] = row
	p.note(row)
	return true
}

// note shows a call on the page. The caller holds the lock.
func (p *Partner) note(row *received) {
	p.received = slices.Insert(p.received, 0, row)
	p.received = p.received[:min(len(p.received), mostReceived)]
}

func (p *Partner) describe(event webhook.Event) *received {
	row := &received{At: p.now(), Verified: true}
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		row.Type, row.Detail = string(event.Type), string(event.Data.Reason)
		row.About = p.nameOf(event.Data.GrantId.String())
	case webhook.ActivityUpdated:
		row.Type, row.About = string(event.Type), p.nameOf(event.Data.GrantId.String())
		row.Detail = datasets(event.Data.Datasets) + ", " + days(event.Data.From.Time, event.Data.To.Time)
	case webhook.Unknown:
		row.Type = event.Type
	}
	return row
}

func (p *Partner) nameOf(grant string) string {
	member, _ := p.member(p.store.memberOf(grant))
	return member.Name
}

func datasets(names []sdk.Dataset) string {
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
			p.settle(t)
		}
	}
}

func (p *Partner) settle(t task) {
	outcome := p.work(t.event)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.row.Outcome = outcome
}

// work does what an event asks for, and says so.
func (p *Partner) work(event webhook.Event) string {
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		return p.revoked(event)
	case webhook.ActivityUpdated:
		member := p.store.memberOf(event.Data.GrantId.String())
		if c, found := p.store.get(member); member == "" {
			return nobodys
		} else if !found || c.Over != "" {
			return "Nothing is read any more: ignored."
		} else if outdated(c, event.Version) {
			return "About an older connection: ignored."
		}
		return "This page reads it when it is shown next." // a company that stores what it read would read these days now
	default:
		return "Not known here: ignored."
	}
}

// nobodys is the outcome of a sample that the operator sends, among others.
const nobodys = "No connection of anybody here: ignored."

// revoked throws the tokens of the connection away, unless the member has connected again meanwhile.
func (p *Partner) revoked(event webhook.ConnectionRevoked) string {
	member := p.store.memberOf(event.Data.GrantId.String())
	lock := p.refreshing[member]
	if lock == nil {
		return nobodys
	}
	lock.Lock()
	defer lock.Unlock()
	c, found := p.store.get(member)
	switch {
	case !found || c.Over != "":
		return "Known already."
	case outdated(c, event.Version):
		return "About an older connection: ignored."
	}
	switch event.Data.Reason {
	case sdk.ConnectionRevokedDataReasonUserDisconnected, sdk.ConnectionRevokedDataReasonAccountDeleted:
		c.Forgotten = true
	}
	if _, err := p.end(member, c, ended(event.Data.Reason)); !errors.Is(err, errOver) {
		return sentence(err)
	}
	return "The tokens were thrown away."
}

// outdated reports whether an event is about a version below the one that is held. They are compared as numbers.
func outdated(c Connection, version int64) bool {
	held, err := strconv.ParseInt(c.Version, 10, 64)
	return err == nil && version < held
}

// ended says why a member must connect again.
func ended(reason sdk.ConnectionRevokedDataReason) string {
	switch reason {
	case sdk.ConnectionRevokedDataReasonUserDisconnected:
		return "you disconnected this partner at Activity Connect"
	case sdk.ConnectionRevokedDataReasonAccountDeleted:
		return "your account at Activity Connect was deleted"
	case sdk.ConnectionRevokedDataReasonRefreshTokenReplayed:
		return "a used token was presented again, and everything was revoked"
	default:
		return fmt.Sprintf("Activity Connect says %s", reason)
	}
}

// calls are the newest first, for the page.
func (p *Partner) calls(zone *time.Location) []received {
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
	if err := pageTemplate.ExecuteTemplate(&part, "received", p.calls(member.Timezone)); err != nil {
		http.Error(w, "the list cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Connection-State", p.state(member.Key))
	_, _ = part.WriteTo(w)
}

func (p *Partner) state(member string) string {
	switch c, found := p.store.get(member); {
	case !found:
		return "none"
	case c.Over != "":
		return "over"
	default:
		return "connected"
	}
}
