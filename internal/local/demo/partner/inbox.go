package partner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// receive gives a call to [Connector.Webhook], and to the page. A genuine call gets its row in putAside.
func (p *Partner) receive(w http.ResponseWriter, r *http.Request) {
	body := peek(&r.Body)
	row := &received{Type: "refused", Call: newExchange(r, maskBody(body))}
	if _, err := webhook.Verify(p.config.WebhookSecret, r.Header, body); err != nil && len(body) <= mostRecorded {
		row.Detail = err.Error()
		row.Call.respond(http.StatusUnauthorized, nil, "\n\n"+maskAll(row.Detail))
		p.mu.Lock()
		p.show(row)
		p.mu.Unlock()
	}
	p.connector.Webhook(w, r.WithContext(context.WithValue(r.Context(), callKey{}, row)))
}

// putAside takes each event once. What waits here is lost when the process ends.
func (p *Partner) putAside(ctx context.Context, event webhook.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, seen := p.seen[event.WebhookID()]; seen {
		before.Again++
		return nil
	}
	row, _ := ctx.Value(callKey{}).(*received)
	p.describe(row, event)
	row.Call.respond(http.StatusNoContent, nil, "") // by [Connector.Webhook], if there is room
	select {
	case p.inbox <- task{event, row}:
	default:
		return errFull
	}
	if len(p.seen) >= mostSeen {
		clear(p.seen)
	}
	p.seen[event.WebhookID()] = row
	p.show(row)
	return nil
}

// show puts a call on the page. The caller holds the lock.
func (p *Partner) show(row *received) {
	row.At = time.Now()
	p.received = slices.Insert(p.received, 0, row)
	p.received = p.received[:min(len(p.received), mostReceived)]
}

func (p *Partner) describe(row *received, event webhook.Event) {
	row.Verified = true
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		row.Type, row.Detail, row.About = string(event.Type), string(event.Data.Reason), p.nameOf(event.Data.GrantId)
	case webhook.ActivityUpdated:
		row.Type, row.About = string(event.Type), p.nameOf(event.Data.GrantId)
		for _, name := range event.Data.Datasets {
			row.Detail += string(name) + ", "
		}
		const day = "2 Jan"
		row.Detail += event.Data.From.Format(day)
		if to := event.Data.To; !to.Equal(event.Data.From.Time) {
			row.Detail += " to " + to.Format(day)
		}
	case webhook.Unknown:
		row.Type = event.Type
	}
}

// nameOf is called with the lock held.
func (p *Partner) nameOf(grant uuid.UUID) string {
	member, _ := p.member(p.owners[grant])
	return member.Name
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

// work has [Connector.Work] do what an event asks for, and shows what that was.
func (p *Partner) work(ctx context.Context, t task) {
	outcome, member, err := p.connector.Work(ctx, t.event)
	revoked, isRevoked := t.event.(webhook.ConnectionRevoked)
	if err == nil && isRevoked && member != "" {
		err = p.noteReason(ctx, member, revoked.Data)
	}
	text := outcomes[outcome]
	if err != nil {
		text = "This could not be worked on: the connection cannot be stored."
	}
	p.mu.Lock()
	t.row.Outcome = text
	call := t.row.Call
	p.mu.Unlock()
	if isRevoked && outcome == Ended {
		p.add(member, beginning("ended by webhook", because(revoked.Data.Reason), call))
	}
}

// noteReason keeps why a connection is over, for the page.
func (p *Partner) noteReason(ctx context.Context, member string, revoked connectsdk.ConnectionRevokedData) error {
	forgotten := revoked.Reason == connectsdk.ConnectionRevokedDataReasonUserDisconnected ||
		revoked.Reason == connectsdk.ConnectionRevokedDataReasonAccountDeleted
	held, state, err := p.held(ctx, member)
	p.mu.Lock()
	defer p.mu.Unlock()
	over := ended{member, revoked.ConnectionVersion}
	if state == "over" && held.Version == over.version && (forgotten || p.endings[over].Why == "") {
		p.endings[over] = ending{because(revoked.Reason), forgotten}
	}
	return err
}

// because says why a member must connect again.
func because(reason connectsdk.ConnectionRevokedDataReason) string {
	switch reason {
	case connectsdk.ConnectionRevokedDataReasonUserDisconnected:
		return "you disconnected this partner at Activity Connect"
	case connectsdk.ConnectionRevokedDataReasonAccountDeleted:
		return "your account at Activity Connect was deleted"
	case connectsdk.ConnectionRevokedDataReasonRefreshTokenReplayed:
		return "a used key was presented again, and everything was revoked"
	default:
		return fmt.Sprintf("Activity Connect says %s", reason)
	}
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

// listReceived is the part of the page that its script asks for again and again.
func (p *Partner) listReceived(w http.ResponseWriter, r *http.Request) {
	_, member := p.session(w, r)
	var part bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&part, "received", p.shownCalls(member.Timezone)); err != nil {
		http.Error(w, "the list cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, state, _ := p.held(r.Context(), member.Key)
	w.Header().Set("Connection-State", state)
	_, _ = part.WriteTo(w)
}
