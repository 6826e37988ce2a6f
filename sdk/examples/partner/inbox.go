package partner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/webhook"
)

const (
	mostWaiting  = 1000 // events that wait for Run
	mostReceived = 12   // calls of a member on the page
	mostSeen     = 10_000
)

// received is one call to the webhook address, in words for people.
type received struct {
	At       time.Time
	Verified bool
	Type     string // or the reason of a refusal
	About    string // the member, by name
	Detail   string // the reason, or the datasets and dates, as the contract writes them
	Outcome  string // of Run's work
	Again    int    // repetitions of the same event
	Call     exchange
}

type task struct {
	event webhook.Event
	row   *received
}

// receive verifies a call, queues its event for Run, and shows it. Run works later, because the service waits for only five seconds.
func (p *Partner) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostRecorded))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	row := &received{Type: "refused", Call: newExchange(r, maskBody(body))}
	event, err := webhook.Verify(p.config.WebhookSecret, r.Header, body)
	if err != nil {
		row.Detail = err.Error()
		row.Call.respond(http.StatusUnauthorized, nil, "\n\n"+maskAll(row.Detail))
		p.mu.Lock()
		p.show(row)
		p.mu.Unlock()
		http.Error(w, row.Detail, http.StatusUnauthorized)
		return
	}
	if !p.putAside(event, row) {
		http.Error(w, "not now", http.StatusServiceUnavailable) // the service will send it again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// putAside queues each event once, and returns whether there was room. Queued events are lost when the process ends.
func (p *Partner) putAside(event webhook.Event, row *received) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, seen := p.seen[event.WebhookID()]; seen {
		before.Again++
		return true
	}
	p.describe(row, event)
	row.Call.respond(http.StatusNoContent, nil, "") // if there is room
	select {
	case p.inbox <- task{event, row}:
	default:
		return false
	}
	if len(p.seen) >= mostSeen {
		clear(p.seen)
	}
	p.seen[event.WebhookID()] = row
	p.show(row)
	return true
}

// show puts a call on the page. The caller holds the lock.
func (p *Partner) show(row *received) {
	row.At = time.Now()
	p.received = slices.Insert(p.received, 0, row)
	of := 0
	p.received = slices.DeleteFunc(p.received, func(other *received) bool {
		if other.About == row.About {
			of++
		}
		return other.About == row.About && of > mostReceived
	})
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

// nameOf requires the lock.
func (p *Partner) nameOf(grant uuid.UUID) string {
	member, _ := p.member(p.owners[grant])
	return member.Name
}

// Run works on the queued events until ctx ends.
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

const (
	unknown  = "Nothing that is known here: ignored."
	outdated = "About a connection that is over or was made again: ignored."
)

func (p *Partner) work(ctx context.Context, t task) {
	text, err := unknown, error(nil)
	switch event := t.event.(type) {
	case webhook.ConnectionRevoked:
		text, err = p.end(ctx, event, t.row.Call)
	case webhook.ActivityUpdated:
		text, err = p.change(ctx, event)
	}
	if err != nil {
		text = "This could not be worked on: the connection cannot be stored."
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.row.Outcome = text
}

func (p *Partner) end(ctx context.Context, event webhook.ConnectionRevoked, call exchange) (string, error) {
	member := p.memberOf(event.Data.GrantId)
	if member == "" {
		return unknown, nil
	}
	held, _, err := p.held(ctx, member)
	if err != nil || held.GrantID != event.Data.GrantId { // of another account, with versions of its own
		return outdated, err
	}
	news, err := p.connector.Client.Ended(ctx, member, event.Version)
	if err == nil {
		err = p.noteReason(ctx, member, event.Data)
	}
	if !news {
		return outdated, err
	}
	p.add(member, beginning("ended by webhook", because(event.Data.Reason), call))
	return "The keys were thrown away.", err
}

func (p *Partner) change(ctx context.Context, event webhook.ActivityUpdated) (string, error) {
	member := p.memberOf(event.Data.GrantId)
	if member == "" {
		return unknown, nil
	}
	held, state, err := p.held(ctx, member)
	if err != nil || state != "connected" || held.GrantID != event.Data.GrantId {
		return outdated, err
	}
	if version, err := strconv.ParseInt(held.Version, 10, 64); err != nil || event.Version < version {
		return outdated, err
	}
	return "This page reads it when it is shown next.", nil
}

// noteReason keeps the reason why a connection ended, for the page.
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

// because returns the reason why a member must connect again.
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

// shownCalls returns the calls for a member's page, newest first: those about this member, and those about nobody, such as refused ones.
func (p *Partner) shownCalls(of Member) []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rows []received
	for _, row := range p.received {
		if row.About != "" && row.About != of.Name {
			continue
		}
		shown := *row
		shown.At = shown.At.In(of.Timezone)
		rows = append(rows, shown)
	}
	return rows
}

// listReceived serves the part of the page that its script polls.
func (p *Partner) listReceived(w http.ResponseWriter, r *http.Request) {
	_, member := p.session(w, r)
	var part bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&part, "received", p.shownCalls(member)); err != nil {
		http.Error(w, "the list cannot be shown", http.StatusInternalServerError)
		return
	}
	_, state, _ := p.held(r.Context(), member.Key)
	w.Header().Set("Connection-State", state)
	p.send(w, http.StatusOK, part)
}
