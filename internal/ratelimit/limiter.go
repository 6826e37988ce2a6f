package ratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/panics"
)

// enoughTime is what a question to the store gets at least. It is not asked under a deadline that could cut it off before.
const enoughTime = time.Second

// Store keeps one small text for each client, for all servers.
type Store interface {
	// Load returns the text of a client, empty if there is none.
	Load(ctx context.Context, clientID uuid.UUID) (string, error)
	// CompareAndSet keeps next in place of old. It is false, and has changed nothing, if the store does not hold old. After
	// this time next means the same as the empty text, and may be forgotten.
	CompareAndSet(ctx context.Context, clientID uuid.UUID, old, next string, until time.Duration) (bool, error)
}

// Limiter decides the requests of all clients. It is safe for concurrent use.
type Limiter struct {
	store     Store
	timeLimit time.Duration
	number    uint32   // tells its leases from those of other servers
	clients   sync.Map // of *client by client id: as many as there are registrations
}

// New is a limiter. Limiters whose stores keep the same texts share the limits. One question to the store may take timeLimit.
func New(store Store, timeLimit time.Duration) *Limiter {
	return &Limiter{store: store, timeLimit: timeLimit, number: rand.Uint32()}
}

// Check returns an error if the store does not answer.
func (l *Limiter) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeLimit)
	defer cancel()
	if _, err := l.store.Load(ctx, uuid.Nil); err != nil { // of no client
		return fmt.Errorf("ratelimit: %w", err)
	}
	return nil
}

// client is one whose requests this server has seen.
type client struct {
	*Limiter
	id uuid.UUID

	mu      sync.Mutex
	asking  bool // a question is under way
	waiting []*question
	policy  Policy // of the latest admission

	loaded bool    // state and kept are what the store held last, as far as this server knows
	state  state   // of the client
	kept   string  // the same, as the store's text
	owed   []lease // to be released; those of a question that failed may or may not have been given
}

// question is an admission that is to be decided, or a lease that is to be released.
type question struct {
	policy   Policy
	now      time.Time
	release  lease // zero for an admission
	left     bool  // nobody waits for the answer; guarded by the client
	answered chan struct{}
	decision Decision
	err      error
}

// Admit decides one request of a client, which the database authenticated at now. An error says that nothing could be decided
// within the time limit, or before the context ended. Then the request must not go on.
func (l *Limiter) Admit(ctx context.Context, clientID uuid.UUID, policy Policy, now time.Time) (Decision, error) {
	found, ok := l.clients.Load(clientID)
	if !ok {
		found, _ = l.clients.LoadOrStore(clientID, &client{Limiter: l, id: clientID})
	}
	c := found.(*client)
	if refusal, sure := c.refuse(policy, now); sure {
		return refusal, nil
	}
	q := &question{policy: policy, now: now}
	if err := c.ask(ctx, q); err != nil {
		return Decision{}, err
	}
	return q.decision, nil
}

// Release ends the lease of an admitted request. Call it when the read is over, however it went. It does nothing for a refusal,
// and nothing the second time. If the context ends first, the lease is released as soon as that is possible. An error says that
// the lease may have to end by itself: log it, and do no more.
func (d *Decision) Release(ctx context.Context) error {
	q := &question{release: d.lease}
	if q.release == (lease{}) {
		return nil
	}
	d.lease = lease{}
	return d.client.ask(ctx, q)
}

// refuse decides without the store if the client is certainly out of budget: whatever other servers have admitted since, only
// time adds to a bucket.
func (c *client) refuse(policy Policy, now time.Time) (refusal Decision, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		return Decision{}, false
	}
	_, decisions := c.state.admit(policy, now, 1, c.number)
	return decisions[0], decisions[0].Reason == ReasonRate
}

// ask waits for the answer. If no other question is under way, and the context leaves time for one, it asks the store itself;
// otherwise the next question answers all that wait. If the context ends first, what the answer gives is released.
func (c *client) ask(ctx context.Context, q *question) error {
	q.answered = make(chan struct{})
	c.mu.Lock()
	c.waiting = append(c.waiting, q)
	if !c.asking {
		c.asking = true
		if end, limited := ctx.Deadline(); ctx.Err() == nil && (!limited || time.Until(end) > enoughTime) {
			c.answer(ctx)
		}
		if c.asking {
			go c.run() //nolint:gosec // it serves all who wait, and outlives whoever came first
		}
	}
	c.mu.Unlock()
	select {
	case <-q.answered:
		return q.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-q.answered: // at this moment
		return q.err
	default:
		q.left = true
		return fmt.Errorf("ratelimit: %w", ctx.Err())
	}
}

// run answers until nothing waits.
func (c *client) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.asking {
		c.answer(context.Background())
	}
}

// answer answers all questions that wait with one question to the store. The caller holds c.mu, which is free while the store is
// asked.
func (c *client) answer(ctx context.Context) {
	questions, now := c.waiting, time.UnixMicro(c.state.At)
	c.waiting = nil
	var admissions []*question
	for _, q := range questions {
		if q.release != (lease{}) {
			c.owed = append(c.owed, q.release)
			continue
		}
		if len(admissions) == 0 || q.now.After(now) { // the latest knows the policy
			c.policy, now = q.policy, q.now
		}
		admissions = append(admissions, q)
	}
	c.mu.Unlock()
	next, kept, decisions, err := c.settle(ctx, now, len(admissions))
	c.mu.Lock()
	c.loaded, c.state, c.kept = err == nil, next, kept
	if err == nil {
		c.owed = nil
	}
	for i, decision := range decisions {
		decision.client = c
		admissions[i].decision = decision
		if decision.Allowed && (err != nil || admissions[i].left) {
			c.owed = append(c.owed, decision.lease)
		}
	}
	for _, q := range questions {
		q.err = err
		close(q.answered)
	}
	c.asking = len(c.waiting) > 0 || err == nil && len(c.owed) > 0
}

// settle has the store keep the state after n requests and after the release of what is owed. It reads nothing that others
// write at the same time, because one settle runs for a client. If it fails, the decisions are those that may have been kept all
// the same.
func (c *client) settle(ctx context.Context, now time.Time, n int) (next state, kept string, decisions []Decision, err error) {
	defer func() {
		if failure := recover(); failure != nil { // there may be no request's goroutine to catch it
			err = fmt.Errorf("ratelimit: %w", panics.New(failure))
		}
	}()
	ctx, cancel := context.WithTimeout(fairqueue.WithCaller(ctx, fairqueue.Caller{Kind: fairqueue.Partners, Name: c.id.String()}), c.timeLimit)
	defer cancel()
	known, old, loaded := c.state, c.kept, c.loaded
	for {
		if !loaded {
			if known, old, err = c.load(ctx); err != nil {
				return state{}, "", nil, fmt.Errorf("ratelimit: load: %w", err)
			}
		}
		before := known.at(c.policy, now)
		next, decisions = before.release(c.owed).admit(c.policy, now, n, c.number)
		if next.same(before) { // all are refused for their rate, and nothing is owed
			return known, old, decisions, nil
		}
		text, err := json.Marshal(next)
		if err != nil {
			return state{}, "", nil, err
		}
		set, err := c.store.CompareAndSet(ctx, c.id, old, string(text), next.rests(c.policy))
		if err != nil {
			return state{}, "", decisions, fmt.Errorf("ratelimit: compare and set: %w", err)
		}
		if set {
			return next, string(text), decisions, nil
		}
		loaded = false // another server was faster
	}
}

// load asks the store for the state.
func (c *client) load(ctx context.Context) (known state, kept string, err error) {
	kept, err = c.store.Load(ctx, c.id)
	if err == nil && kept != "" {
		err = json.Unmarshal([]byte(kept), &known)
	}
	return known, kept, err
}
