//go:build faults

package storm

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// taken is for how long after a pause a server may still send what it has taken before: an attempt, and what it waited for.
const taken = 15 * time.Second

// pauseLedger has the pauses of one partner's webhook, and when its events arrived: none during a pause. That all of them arrive afterwards
// is in the ledger of events.
type pauseLedger struct {
	connection *connection

	mu       sync.Mutex
	grant    string
	pauses   []interval
	arrivals []time.Duration
	written  int
}

// interval is from the acknowledgement of a pause to the request that ends it; an end of 0 is not over.
type interval struct{ from, to time.Duration }

// arrived notes a delivery for a grant.
func (l *pauseLedger) arrived(grant string, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if grant == l.grant {
		l.arrivals = append(l.arrivals, at)
	}
}

// switchWebhook asks until the webhook is paused, or resumed. That is one act, however often.
func (s *storm) switchWebhook(ctx context.Context, verb, action string) (done bool) {
	acknowledged := s.audit.ask(action, nobody, s.paused.id)
	for ctx.Err() == nil {
		got := s.operate(verb+" webhook", http.MethodPost, "/clients/"+s.paused.id.String()+"/webhook/"+verb, nil)
		if got.status == http.StatusOK {
			acknowledged()
			return true
		}
		if !got.unknown() {
			s.Errorf("%s of a webhook is answered %d", verb, got.status)
			return false
		}
		await(ctx, retry)
	}
	return false
}

// pause pauses the webhook for a while. It is resumed at last, whatever happens.
func (s *storm) pause(chance *rand.Rand) {
	l := s.pauses
	await(s.stop, between(chance, 6, 10)) // a request to resume that had no answer has happened by then, or never will
	if s.stop.Err() != nil || !s.switchWebhook(s.Context(), "pause", "webhook.paused") {
		return
	}
	l.mu.Lock()
	l.pauses = append(l.pauses, interval{from: time.Since(s.began)})
	l.mu.Unlock()
	await(s.stop, taken+between(chance, 10, 20))
	l.mu.Lock()
	l.pauses[len(l.pauses)-1].to = time.Since(s.began)
	l.mu.Unlock()
	s.switchWebhook(s.Context(), "resume", "webhook.resumed")
}

// tell has something to tell the partner all the time.
func (s *storm) tell(chance *rand.Rand) {
	l := s.pauses
	l.written++
	got := s.operate("write a day", http.MethodPost, "/activity", map[string]any{"daily_steps": []any{
		map[string]any{"user_id": l.connection.user.id, "date": l.connection.day, "steps": l.written},
	}})
	if got.status != http.StatusOK && !got.unknown() {
		s.Errorf("a batch is answered %d %s", got.status, got.body)
	}
	await(s.stop, between(chance, 0.2, 0.8))
}

func (s *storm) checkPauses(ctx context.Context, conn *pgx.Conn) {
	var paused bool
	if err := conn.QueryRow(ctx, "select paused_at is not null from webhook_endpoints where client_id = $1", s.paused.id).Scan(&paused); err != nil {
		s.Fatal(err)
	}
	l := s.pauses
	l.mu.Lock()
	defer l.mu.Unlock()
	if paused {
		s.Error("a webhook is paused that was resumed")
	}
	var long time.Duration
	for _, p := range l.pauses {
		long += max(0, p.to-p.from-taken)
		for _, at := range l.arrivals {
			if at > p.from+taken && at < p.to {
				s.Errorf("an event arrived %s after its webhook was paused, and %s before it was resumed", (at - p.from).Round(time.Millisecond), (p.to - at).Round(time.Millisecond))
			}
		}
	}
	if l.written > 10 && len(l.arrivals) == 0 {
		s.Error("a webhook that is paused now and then got no event")
	}
	s.sum.fact("%d pauses of a webhook of %s, in which none of %d deliveries arrived", len(l.pauses), long.Round(time.Second), len(l.arrivals))
}
