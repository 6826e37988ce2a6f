package ratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/fairqueue"
)

// timeLimit bounds what is asked of the store at one time.
const timeLimit = 2 * time.Second

// Store keeps one small text for each client, for all servers.
type Store interface {
	// Load returns what is kept of a client: nothing is the empty text.
	Load(ctx context.Context, clientID uuid.UUID) (string, error)
	// CompareAndSet keeps next in place of old. It is false, and nothing has changed, where something else than old is kept
	// by now. After so long a time next says no more than the empty text, and may be forgotten.
	CompareAndSet(ctx context.Context, clientID uuid.UUID, old, next string, until time.Duration) (bool, error)
}

// Limiter decides the requests of all clients. It is safe for concurrent use.
type Limiter struct {
	store     Store
	timeLimit time.Duration
	clients   sync.Map // of *client by client id: as many as there are registrations
}

// New is a limiter. All whose stores keep the same texts share the limits.
func New(store Store) *Limiter { return &Limiter{store: store, timeLimit: timeLimit} }

// client is one whose requests this server has seen.
type client struct {
	*Limiter
	id uuid.UUID

	mu       sync.Mutex
	asking   bool // a question is under way
	waiting  []*question
	releases []*lease
	policy   Policy // of the latest question

	loaded bool    // what follows is known: it was kept last, as far as this server knows
	state  state   // of the client
	kept   string  // the same, as the store has it
	owed   []int64 // the ends of leases whose release failed, or that a question which failed may have been given
}

// question is a request that is to be decided.
type question struct {
	policy   Policy
	now      time.Time
	answered chan struct{}
	decision Decision
	err      error
	left     bool // nobody waits for the answer; guarded by the client
}

// lease of an admitted request.
type lease struct {
	client   *client
	end      int64 // names it
	released atomic.Bool
	ended    chan struct{}
	err      error
}

// Admit decides one request of a client, which was authenticated at this time by the database's clock. An error says that
// nothing could be decided within two seconds, or before the context ended. The request must not go on then.
func (l *Limiter) Admit(ctx context.Context, clientID uuid.UUID, policy Policy, now time.Time) (Decision, error) {
	found, ok := l.clients.Load(clientID)
	if !ok {
		found, _ = l.clients.LoadOrStore(clientID, &client{Limiter: l, id: clientID})
	}
	c := found.(*client)
	q := &question{policy: policy, now: now, answered: make(chan struct{})}
	c.mu.Lock()
	if refusal, sure := c.refuse(policy, now); sure {
		c.mu.Unlock()
		return refusal, nil
	}
	c.waiting = append(c.waiting, q)
	c.ask()
	c.mu.Unlock()
	select {
	case <-q.answered:
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		select {
		case <-q.answered:
		default:
			q.left = true
			return Decision{}, fmt.Errorf("ratelimit: admit: %w", ctx.Err())
		}
	}
	return q.decision, q.err
}

// Release ends the lease of an admitted request; call it when the read is over, whatever became of it. It does nothing for
// a refusal, and nothing the second time. When the context ends before, the lease is released as soon as that is possible.
// An error means that it may end by itself: it is worth a log entry, no more.
func (d *Decision) Release(ctx context.Context) error {
	l := d.lease
	if l == nil || l.released.Swap(true) {
		return nil
	}
	l.client.mu.Lock()
	l.client.releases = append(l.client.releases, l)
	l.client.ask()
	l.client.mu.Unlock()
	select {
	case <-l.ended:
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("ratelimit: release: %w", ctx.Err())
	}
}

// refuse decides without the store where the client is out of budget whatever other servers have admitted since: nothing
// but time adds to a bucket.
func (c *client) refuse(policy Policy, now time.Time) (refusal Decision, sure bool) {
	if !c.loaded {
		return Decision{}, false
	}
	_, decisions, _ := c.state.admit(policy, now, 1)
	return decisions[0], decisions[0].Reason == ReasonRate
}

// ask has the store asked what waits, unless a question is under way. c.mu is held.
func (c *client) ask() {
	if !c.asking {
		c.asking = true
		go c.run()
	}
}

// run asks until nothing waits.
func (c *client) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 || len(c.releases) > 0 {
		questions, releases := c.waiting, c.releases
		c.waiting, c.releases = nil, nil
		now := time.UnixMicro(c.state.At)
		for i, q := range questions { // the latest knows the policy
			if i == 0 || q.now.After(now) {
				c.policy, now = q.policy, q.now
			}
		}
		for _, l := range releases {
			c.owed = append(c.owed, l.end)
		}
		c.mu.Unlock()
		next, kept, decisions, end, err := c.settle(now, len(questions))
		c.mu.Lock()
		c.loaded, c.state, c.kept = err == nil, next, kept
		if err == nil {
			c.owed = nil
		}
		c.answer(questions, decisions, end, err)
		for _, l := range releases {
			l.err = err
			close(l.ended)
		}
	}
	c.asking = false
}

// settle has the store keep the state after n requests and after what is owed. It reads nothing that others write
// meanwhile: one settle runs for a client. Where it fails the decisions say what may have been kept all the same.
func (c *client) settle(now time.Time, n int) (next state, kept string, decisions []Decision, end int64, err error) {
	defer func() {
		if failure := recover(); failure != nil { // no request's goroutine is here to catch it
			err = fmt.Errorf("ratelimit: panic: %v", failure)
		}
	}()
	ctx, cancel := fairqueue.Within(context.Background(), c.id.String(), c.timeLimit)
	defer cancel()
	known, old, loaded := c.state, c.kept, c.loaded
	for {
		if !loaded {
			if known, old, err = c.load(ctx); err != nil {
				return state{}, "", decisions, end, fmt.Errorf("ratelimit: load: %w", err)
			}
		}
		before := known.at(c.policy, now)
		next, decisions, end = before.release(c.owed).admit(c.policy, now, n)
		if next.same(before) { // all are refused for their rate, and nothing is owed
			return known, old, decisions, end, nil
		}
		text, err := json.Marshal(next)
		if err != nil {
			return state{}, "", decisions, end, fmt.Errorf("ratelimit: %w", err)
		}
		set, err := c.store.CompareAndSet(ctx, c.id, old, string(text), next.rests(c.policy))
		if err != nil {
			return state{}, "", decisions, end, fmt.Errorf("ratelimit: compare and set: %w", err)
		}
		if set {
			return next, string(text), decisions, end, nil
		}
		loaded, decisions = false, nil // another server was faster
	}
}

// load asks what the store keeps.
func (c *client) load(ctx context.Context) (known state, kept string, err error) {
	kept, err = c.store.Load(ctx, c.id)
	if err == nil && kept != "" {
		err = json.Unmarshal([]byte(kept), &known)
	}
	return known, kept, err
}

// answer tells each who asked. A lease that nobody waits for, or that may have been given by a question that failed, is
// released.
func (c *client) answer(questions []*question, decisions []Decision, end int64, err error) {
	for i, q := range questions {
		q.err = err
		allowed := i < len(decisions) && decisions[i].Allowed
		switch {
		case err != nil && allowed:
			c.owed = append(c.owed, end)
		case err != nil:
		case allowed && q.left:
			c.releases = append(c.releases, &lease{client: c, end: end, ended: make(chan struct{})})
		default:
			q.decision = decisions[i]
			if allowed {
				q.decision.lease = &lease{client: c, end: end, ended: make(chan struct{})}
			}
		}
		close(q.answered)
	}
}
