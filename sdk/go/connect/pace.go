package connect

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The pace of reads. The service keeps a budget of requests, which refills evenly, and tells in each answer how fast (RateLimit-Limit) and
// how many are left (RateLimit-Remaining; RateLimit-Reset follows from both, in whole seconds). A read leaves in a slot. The distance of
// slots is such that what is left would be spent within the horizon. So reads are fast after a pause, slow down until they are as fast as
// the refill, and keep a reserve; several processes that do not know of each other share the rate, as all see the same budget. With a
// [Pacer] they also take turns.
const (
	horizon      = 10 * time.Second       // or what half of a full budget takes to refill, if that is less
	firstSlots   = 100 * time.Millisecond // the distance of slots before the first answer
	reserveAhead = 500 * time.Millisecond // slots that are reserved at once lie in such a span
	late         = time.Second            // a slot that is older is not used any more
	fresh        = 2 * time.Second        // what an answer said is true for so long; then the refill is counted on
	forget       = time.Minute            // and what a full budget takes to refill: after it, all is learned anew, such as a new policy
	mostBudget   = 1_000_000              // requests a minute, and left: more is as much
	paceTimeout  = 2 * time.Second        // of a question to the Pacer; after a failure the process goes on by itself for a minute
)

// pool is what all reads of a process share: a number of places, which adapts, and slots.
type pool struct {
	clientID string
	places   float64 // ConcurrentReads: the most
	pacer    Pacer   // nil if the store has none
	now      func() time.Time
	sleep    func(context.Context, time.Duration) error
	jitter   func(time.Duration) time.Duration

	turn chan struct{} // holds one element while a read waits for its slot

	mu      sync.Mutex
	open    float64         // places that may be taken now
	refused bool            // by a 429 for too many reads at one time
	taken   int             // places
	queue   []chan struct{} // of reads that wait for a place, which is theirs when it is closed
	waiting int             // reads without a slot
	slots   []time.Time     // reserved, in order
	last    time.Time       // the last slot of this process's own pace
	alone   time.Time       // until when the Pacer is not asked
	until   time.Time       // no read leaves earlier, after a 429
	told    told
}

// told is what the service said of its budget.
type told struct {
	at        time.Time // zero: nothing yet
	limit     int       // requests a minute; 0 if it does not say
	remaining int
	most      int // the most that remaining was
}

func newPool(config Config) *pool {
	p := &pool{
		clientID: config.ClientID, places: float64(config.ConcurrentReads), now: config.Now, sleep: config.Sleep, jitter: config.Jitter,
		turn: make(chan struct{}, 1), open: min(2, float64(config.ConcurrentReads)),
	}
	p.pacer, _ = config.Store.(Pacer)
	return p
}

// enter takes a place, and waits in it for a slot, and while the service wants no reads.
func (p *pool) enter(ctx context.Context) error {
	p.mu.Lock()
	ready := make(chan struct{})
	p.queue = append(p.queue, ready)
	p.waiting++
	p.admit()
	p.mu.Unlock()
	err := p.leaveIn(ctx, ready)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	if err != nil {
		if i := slices.Index(p.queue, ready); i >= 0 {
			p.queue = slices.Delete(p.queue, i, i+1)
		} else {
			p.taken--
			p.admit()
		}
	}
	return err
}

func (p *pool) leaveIn(ctx context.Context, ready chan struct{}) error {
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	// One at a time: a slot that is reserved far ahead was reserved by what is old when it comes.
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		pause := p.take(ctx)
		if pause <= 0 {
			return nil
		}
		if err := p.sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// admit gives free places to those who wait. The caller holds p.mu.
func (p *pool) admit() {
	for len(p.queue) > 0 && p.taken < int(p.open) {
		close(p.queue[0])
		p.queue = p.queue[1:]
		p.taken++
	}
}

// take takes the first slot if it has come, and returns zero; else it returns when to come again. If none is reserved, it reserves as many
// as are waited for. The caller has the turn.
func (p *pool) take(ctx context.Context) time.Duration {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = slices.DeleteFunc(p.slots, func(slot time.Time) bool { return now.Sub(slot) > late || slot.Before(p.until) })
	if len(p.slots) == 0 {
		p.reserve(ctx, now)
	}
	pause := p.slots[0].Sub(now)
	if pause <= 0 {
		p.slots = p.slots[1:]
		p.told.remaining-- // until an answer says it
	}
	return pause
}

// reserve reserves slots. The caller holds p.mu, which is free while the Pacer is asked.
func (p *pool) reserve(ctx context.Context, now time.Time) {
	interval, hold := p.told.interval(now), max(0, p.until.Sub(now))
	var first time.Duration
	n, shared := 1, p.pacer != nil && !now.Before(p.alone) && interval > 0
	if shared {
		n = max(1, min(p.waiting, int(reserveAhead/interval), p.told.remaining/4))
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), paceTimeout) // others use the answer, too
		answer, err := p.pacer.Pace(ctx, p.clientID, n, interval, min(hold, time.Minute))
		cancel()
		p.mu.Lock()
		if first = answer; err != nil {
			n, shared, p.alone = 1, false, now.Add(time.Minute)
		}
	}
	if !shared {
		first = max(p.last.Add(interval).Sub(now), hold)
		p.last = now.Add(first)
	}
	first = max(first, p.until.Sub(now)) // a 429 may have come meanwhile
	for i := range n {
		p.slots = append(p.slots, now.Add(first+time.Duration(i)*interval))
	}
}

// interval is the distance of slots.
func (t told) interval(now time.Time) time.Duration {
	if t.old(now) {
		return firstSlots
	}
	if t.limit == 0 {
		return 0
	}
	age, refill := now.Sub(t.at), t.refill()
	spend := min(horizon, time.Duration(t.most+1)*refill/2)
	remaining := min(t.most, t.remaining+int(max(0, age-fresh)/refill))
	if remaining <= 0 {
		return max(spend, refill+refill/20) // a little slower than the refill: the network is not punctual
	}
	return spend / time.Duration(remaining)
}

// refill is what one request takes to come back.
func (t told) refill() time.Duration { return time.Minute / time.Duration(max(1, t.limit)) }

func (t told) old(now time.Time) bool {
	return t.at.IsZero() || now.Sub(t.at) > forget+time.Duration(t.most)*t.refill()
}

// leave gives the place back.
func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.admit()
}

// learn takes up what an answer to a read says, before its place is given to another.
func (p *pool) learn(a answer) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, _ := strconv.Atoi(a.header.Get("RateLimit-Limit"))
	remaining, err := strconv.Atoi(a.header.Get("RateLimit-Remaining"))
	known := err == nil && remaining >= 0 && limit > 0
	limit, remaining = min(limit, mostBudget), min(remaining, mostBudget)
	switch {
	case known:
		if p.told.old(now) {
			p.told.most = 0
		}
		p.told = told{now, limit, remaining, max(p.told.most, remaining)}
	case a.status == http.StatusOK:
		p.told = told{at: now}
	}
	switch {
	case a.status == http.StatusTooManyRequests:
		if known && remaining > 0 && !now.Before(p.until) { // too many at one time; counted once for all that were
			p.open, p.refused = max(1, p.open/2), true
		}
		p.until = later(p.until, now.Add(retryAfter(a.header)+p.jitter(min(time.Second, p.told.interval(now)+1))))
		p.slots = nil
	case a.status == http.StatusOK && len(p.queue) > 0 && p.refused:
		p.open = min(p.places, p.open+.01)
	case a.status == http.StatusOK && len(p.queue) > 0:
		p.open = min(p.places, p.open+.25)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
