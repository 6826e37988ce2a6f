// Package ratelimit enforces the rate policy of a client (specification section 8): its activity requests a minute, back to back, and
// at one time, counted over all its users, all three reads and all servers.
//
//	decision, err := limiter.Admit(ctx, clientID, policy, now)
//	if err != nil { … }                  // 503 data_unavailable: without the limiter no request passes
//	defer decision.Release(ctx)
//	if !decision.Allowed { … }          // 429 rate_limited
//
// Requests a minute and burst form a token bucket, which holds burst requests and refills evenly. A request is refused, and takes
// nothing, if the bucket holds less than one. Reads at one time are leases. A request that the bucket paid for is refused if no lease
// is free, and stays paid for. A lease ends with its request, or [LeaseLifetime] after the request began if its server died; a read
// must therefore end sooner. While few leases are used, a server stores the end of one a little later, with the client's next admission.
//
// The rule, in rule.go, is a pure function of policy, state and time. [Limiter] applies it. A [Store], which is PostgreSQL or
// Redis, stores one small text for each client, for all servers; it only compares and sets. A server asks the store one question
// about a client at a time, and the next question decides all requests that have arrived in the meantime.
//
// # Invariants
//
//   - In any span of time a client is admitted at most burst requests plus those that refill in that span, over all servers, and never
//     holds more leases than its policy allows (TestRuleBounds, TestPostgres, TestRedis).
//   - A lease that is released twice, because the store's answer was lost, releases no other (TestReleaseOfOneOfTwo).
//   - Deciding requests together has the outcome of deciding them in turn (TestRuleTogetherIsInTurn).
//   - A release waits for a moment, only while the client uses less than half of its leases, and refuses nobody: a request that would be
//     refused for leases of other servers is decided once the releases that waited are stored (TestReleaseWaits,
//     TestRefusalWaitsForOtherServers). Its caller may have gone (TestCallerThatLeft).
//   - A changed policy applies to the next request: the bucket is cut to the new burst, and running reads may complete (TestPostgres).
//   - A state of a clock that was ahead refuses nobody for longer than its bucket takes to fill, or five seconds
//     (TestStateOfAClockThatWasAhead).
//   - A state of another version is never read as one of this program's: until it says nothing more, reads of its client get an error
//     (TestPostgres, TestRedis, TestStateOfAnotherVersionThatWasAhead).
//   - If the address of Redis leads to another server, the limiter decides there, although the old one keeps its connections and answers: a
//     refusal that the state of a server explains, and a time limit, end the connections (TestRedisSwitchover, TestRedisRefusals).
//   - A state that is lost after it says nothing more changes no decision (TestRuleFullAfter).
//   - While the store refuses texts, requests do not get more expensive (TestStoreThatRefusesTexts).
//
// The only clock is the database's: now is when the database authenticated the request.
//
// Requests that the specification does not count (those refused for authentication or scope, and malformed ones) never reach
// this package: the edge refuses them first.
package ratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

const (
	// releaseWithin is how long the release of a lease may wait for the client's next admission, which is stored with it.
	releaseWithin = 50 * time.Millisecond
	// askAgainAfter is after what time a request is decided that was about to be refused for leases of other servers: those whose
	// release waited are released by then.
	askAgainAfter = 100 * time.Millisecond
)

// Store stores one small text for each client, for all servers.
type Store interface {
	// ID identifies the store: two servers share it if and only if their texts are equal.
	ID(ctx context.Context) (string, error)
	// Check returns an error if the store does not answer, or would not accept a text. It changes nothing.
	Check(ctx context.Context) error
	// Load returns the text of a client, empty if there is none.
	Load(ctx context.Context, clientID uuid.UUID) (string, error)
	// CompareAndSet replaces old by next. It returns false, and changes nothing, if the store does not hold old. After the duration
	// until, next means the same as the empty text, and may be deleted.
	CompareAndSet(ctx context.Context, clientID uuid.UUID, old, next string, until time.Duration) (bool, error)
}

// Limiter decides the requests of all clients. It is safe for concurrent use.
type Limiter struct {
	store     Store
	timeLimit time.Duration
	number    uint32   // marks the leases of this server
	clients   sync.Map // of *client by client id: at most one for each registration
}

// New returns a limiter. Limiters with the same texts in their stores share the limits. One question to the store may take timeLimit.
func New(store Store, timeLimit time.Duration) *Limiter {
	return &Limiter{store: store, timeLimit: timeLimit, number: rand.Uint32()}
}

// Check returns an error if the store does not answer, or would not accept a decision.
func (l *Limiter) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeLimit)
	defer cancel()
	if err := l.store.Check(ctx); err != nil {
		return fmt.Errorf("ratelimit: %w", err)
	}
	return nil
}

// Store identifies the limiter's store. Its texts differ if the stores differ.
func (l *Limiter) Store(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeLimit)
	defer cancel()
	return l.store.ID(ctx)
}

// client is a client that has sent requests to this server.
type client struct {
	*Limiter
	id uuid.UUID

	mu     sync.Mutex
	asking bool // the store is being asked
	queue  []*question
	policy Policy // of the latest admission

	loaded bool   // state and stored are the last that this server knows of the store
	state  state  // of the client
	stored string // the same, as the store's text
}

// question is an admission to decide, or a lease to release.
type question struct {
	policy   Policy
	now      time.Time
	release  lease // zero for an admission
	stage    stage // guarded by the client, as left is
	again    bool  // it was about to be refused, and is decided now
	left     bool  // the caller does not wait any more
	answered chan struct{}
	decision Decision
	err      error
}

// stage tells when a question goes to the store.
type stage int

const (
	ready     stage = iota // with the next one
	postponed              // a release: with the next one, which it does not cause itself
	undecided              // an admission that was about to be refused: after askAgainAfter
	asked                  // the store has it, or is being asked about it
)

// Admit decides one request of a client, which the database authenticated at now. It returns an error if it could not decide within
// the time limit, or before the context ended. Then the request must not continue.
func (l *Limiter) Admit(ctx context.Context, clientID uuid.UUID, policy Policy, now time.Time) (Decision, error) {
	loaded, ok := l.clients.Load(clientID)
	if !ok {
		loaded, _ = l.clients.LoadOrStore(clientID, &client{Limiter: l, id: clientID})
	}
	c := loaded.(*client)
	if refusal, sure := c.refuse(policy, now); sure {
		return refusal, nil
	}
	q := &question{policy: policy, now: now, answered: make(chan struct{})}
	if err := c.ask(ctx, q); err != nil {
		return Decision{}, err
	}
	return q.decision, nil
}

// Release ends the lease of an admitted request. Call it when the read has ended, even if it failed. It does nothing for a refusal,
// and nothing the second time. While the client uses less than half of its leases, this one may end with the client's next admission, but
// within [releaseWithin]. If the context ends first, the lease is released as soon as possible. After an error the lease may have to end by
// itself: only log it.
func (d *Decision) Release(ctx context.Context) error {
	if d.lease == (lease{}) {
		return nil
	}
	q := &question{release: d.lease, answered: make(chan struct{})}
	d.lease = lease{}
	if d.client.postpone(q) {
		return nil
	}
	return d.client.ask(ctx, q)
}

// Flush stores the releases that wait. Call it after the last read.
func (l *Limiter) Flush(ctx context.Context) {
	for _, value := range l.clients.Range {
		c := value.(*client)
		c.mu.Lock()
		i := slices.IndexFunc(c.queue, func(q *question) bool { return q.stage == postponed })
		if i < 0 {
			c.mu.Unlock()
			continue
		}
		first := c.queue[i]
		c.queue = slices.Delete(c.queue, i, i+1)
		c.mu.Unlock()
		_ = c.ask(ctx, first) // and with it the others; at worst the leases end by themselves
	}
}

// postpone has the release wait if the client uses less than half of its leases.
func (c *client) postpone(release *question) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded || 2*c.state.held() >= c.policy.ConcurrentReads {
		return false
	}
	if release.stage = postponed; !slices.ContainsFunc(c.queue, func(q *question) bool { return q.stage == postponed }) {
		time.AfterFunc(releaseWithin, func() { c.resume(release) })
	}
	c.queue = append(c.queue, release)
	return true
}

// resume asks the store about questions whose wait has ended, unless somebody has meanwhile.
func (c *client) resume(questions ...*question) {
	c.mu.Lock()
	for _, q := range questions {
		if q.stage != asked {
			q.stage = ready
		}
	}
	idle := !c.asking && c.isReady()
	c.asking = c.asking || idle
	c.mu.Unlock()
	if idle {
		c.run()
	}
}

// isReady reports whether a question is to go to the store at once. The caller holds c.mu.
func (c *client) isReady() bool {
	return slices.ContainsFunc(c.queue, func(q *question) bool { return q.stage == ready })
}

// refuse decides without the store if the client is certainly out of budget: other servers can only have taken from the bucket since,
// and only time adds to it.
func (c *client) refuse(policy Policy, now time.Time) (refusal Decision, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded || c.state.isAhead(policy, now) {
		return Decision{}, false
	}
	_, decisions := c.state.admit(policy, now, 1, c.number)
	return decisions[0], decisions[0].Reason == ReasonRate
}

// ask waits for the answer. If no other question is under way, and the context leaves a second for one, it asks the store itself;
// otherwise the next question answers all that wait. If the context ends first, a lease in the answer is released.
func (c *client) ask(ctx context.Context, q *question) error {
	c.mu.Lock()
	q.stage = ready
	c.queue = append(c.queue, q)
	if !c.asking {
		c.asking = true
		if end, limited := ctx.Deadline(); ctx.Err() == nil && (!limited || time.Until(end) > time.Second) {
			c.answer(ctx)
		}
		if c.asking {
			go c.run() //nolint:gosec // it serves all callers, and outlives the first one
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
	case <-q.answered: // just now
		return q.err
	default:
		q.left = true
		return fmt.Errorf("ratelimit: %w", ctx.Err())
	}
}

func (c *client) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.asking {
		c.answer(context.Background())
	}
}

// answer asks the store once about all releases, and about all admissions but those that wait to be decided again. The caller holds c.mu,
// which is released while the store is asked.
func (c *client) answer(ctx context.Context) {
	var now time.Time
	var releases, again, first, rest []*question
	var unreleased []lease
	for _, q := range c.queue {
		if q.now.After(now) { // the latest request has the newest policy
			c.policy, now = q.policy, q.now
		}
		switch {
		case q.release != (lease{}):
			releases, unreleased = append(releases, q), append(unreleased, q.release)
		case q.stage == undecided:
			rest = append(rest, q)
			continue
		case q.again:
			again = append(again, q)
		default:
			first = append(first, q)
		}
		q.stage = asked
	}
	c.queue = rest
	admissions := slices.Concat(again, first)
	c.mu.Unlock()
	next, stored, decisions, err := c.settle(ctx, now, unreleased, len(admissions), len(again))
	c.mu.Lock()
	c.loaded, c.state, c.stored = err == nil, next, stored
	var unowned []lease
	when := ready
	if err != nil { // nobody knows what the store holds: leases, up to a bound, are released with the client's next question
		unowned, when = unreleased, postponed
	} else if waiting := admissions[len(decisions):]; len(waiting) > 0 {
		admissions = admissions[:len(decisions)]
		for _, q := range waiting {
			q.again, q.stage = true, undecided
		}
		c.queue = append(c.queue, waiting...)
		time.AfterFunc(askAgainAfter, func() { c.resume(waiting...) })
	}
	for i, decision := range decisions {
		decision.client = c
		admissions[i].decision = decision
		if decision.Allowed && (err != nil || admissions[i].left) && len(unowned) < 2*c.policy.ConcurrentReads {
			unowned = append(unowned, decision.lease)
		}
	}
	for _, l := range unowned {
		c.queue = append(c.queue, &question{release: l, stage: when, answered: make(chan struct{})})
	}
	for _, q := range slices.Concat(releases, admissions) {
		q.err = err
		close(q.answered)
	}
	c.asking = c.isReady()
}

// settle stores the state after the release of leases and after n requests, of which the last came now. It needs no lock, because only one
// settle runs for a client. If it fails, the decisions are those that may have been stored nevertheless. It leaves requests undecided that
// would be refused for leases of other servers, except for the first ones, which were asked about before.
func (c *client) settle(
	ctx context.Context, now time.Time, unreleased []lease, n, again int,
) (next state, stored string, decisions []Decision, err error) {
	defer func() {
		if failure := recover(); failure != nil { // it may run outside the goroutine of a request
			err = fmt.Errorf("ratelimit: %w", work.NewPanic(failure))
		}
	}()
	ctx, cancel := context.WithTimeout(work.Begun(work.WithCaller(ctx, work.Caller{Kind: work.Partners, Name: c.id.String()})), c.timeLimit)
	defer cancel()
	known, old, loaded := c.state, c.stored, c.loaded
	for {
		if !loaded {
			if old, err = c.store.Load(ctx, c.id); err == nil {
				known, err = parse(old, c.policy, now)
			}
			if err != nil {
				return state{}, "", nil, fmt.Errorf("ratelimit: load: %w", err)
			}
		}
		before := known.at(c.policy, now)
		released := before.release(unreleased)
		next, decisions = released.admit(c.policy, now, n, c.number)
		if sure := released.sure(decisions, again, c.number); sure < n {
			next, decisions = released.admit(c.policy, now, sure, c.number)
		}
		if next.same(before) && before.At >= known.At { // all requests are refused for their rate, and no lease is released
			return known, old, decisions, nil
		}
		text, err := json.Marshal(versioned{version, next})
		if err != nil {
			return state{}, "", nil, err
		}
		set, err := c.store.CompareAndSet(ctx, c.id, old, string(text), next.fullAfter(c.policy))
		if err != nil {
			return state{}, "", decisions, fmt.Errorf("ratelimit: compare and set: %w", err)
		}
		if set {
			return next, string(text), decisions, nil
		}
		loaded = false // another server was faster
	}
}
