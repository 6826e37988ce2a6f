// Package work has what every piece of work needs, whoever it is done for: who asks ([Caller], [Actor]), how long it may take ([Limits],
// [Within]), when its turn is ([Queue], [Locks], [Batch]), what it leaves to be written ([Buffer]) or done later
// ([Leases]), and what happens if it panics ([Try], [Restart]).
//
// A queue decides who uses something scarce next: a database connection, or the row of a connection between a user and a client. Everyone who
// asks is a caller of some kind: a partner, a user, a stranger's network, the operator, or the background work of the service. [WithCaller]
// names the caller, and [Within] also sets a deadline. A [Queue] serves the kinds in rotation, and the callers of each kind in rotation. A caller
// that asks for much therefore waits behind itself, and any number of strangers wait behind one another. A caller that is alone may use every place
// of a queue. [Locks] lets one caller at a time act on a row; the others wait here, without a database connection. A [Batch] answers the
// questions of callers who have not yet proved who they are.
//
// No setting changes the limits of time: the service runs with [DefaultLimits]. Tests replace them, because on a busy machine every limit is
// exceeded at some time. Durations that change no answer, such as polling intervals, are constants where they are used: [Pause] and [Every] wait
// for them.
//
// # Invariants
//
//   - While somebody of two kinds waits, no kind is served twice before the other is served once. The same holds for the callers
//     of one kind (TestQueueServesKindsInTurn).
//   - Requests that have begun come before new ones of their kind (TestQueueCompletesWhatIsBegun).
//   - While a caller's requests wait for long, its newest is served first, which has the most time left (TestQueueServesNewestWhenLate).
//   - A place that comes free is handed to one that waits, and no place is lost (TestQueueProperties).
//   - A wait is bounded by time: it ends with [ErrLate] while there is still time to answer (TestQueueIsBoundedByTime). A queue
//     may also bound how many wait for one caller, and refuses more with [ErrFull] (TestQueueIsBoundedForEachCaller).
//   - The outcome of an attempt of [Leases] is recorded in a time of its own (TestLeasesRecord). A hanging receiver takes its own places
//     (TestLeasesPlaces), however many hang they leave a quarter of all (TestLeasesWhileManyHang), and a server that stops finishes what it attempts (TestLeasesStop).
//   - Nobody waits for a [Buffer] to be written (TestBufferRun). Its rows are bounded, and the log says how many were lost (TestBuffer).
//   - Work that panics ends nothing but itself. The error has the stack, without the values of arguments, which may be secrets (TestTry). Background
//     work that panics goes on after a pause, until its context ends (TestRestart).
//   - The context of a request ends with its deadline only. A caller that goes away does not cancel it, because pgx would close
//     the database connection (TestQueueLosesNoPlace).
package work

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

var (
	// ErrFull means that too many wait already.
	ErrFull = errors.New("too many are waiting")
	// ErrLate means that no place came free while there was time left to use it.
	ErrLate = errors.New("no place came free in time")
	// ErrGone means that the caller has gone away.
	ErrGone = errors.New("the caller has gone away")
)

// NotAttempted reports whether err means that an act has certainly not begun: no place came free for it, or nothing that can do it was
// reached (see [Unreached]).
func NotAttempted(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrLate) || errors.As(err, new(unreached))
}

type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

// Unreached marks the error of an act that reached nothing that can do it. It does not change the text.
func Unreached(err error) error { return unreached{err} }

// Unbounded lets any number of one caller wait: only their deadlines bound the wait.
const Unbounded = math.MaxInt

// Queue shares places between callers. It is safe for concurrent use.
type Queue struct {
	most int // waiting for one caller

	mu    sync.Mutex
	free  int            // less than 0: so many of those in use were taken away
	kinds map[Kind]*kind // in which somebody waits
	order list.List      // of these *kind: the front is served next
	stats Stats
}

// Stats of a queue since its creation, and how many wait now.
type Stats struct {
	Acquired, Waited, GivenUp uint64 // places taken; those of them after a wait; attempts without a place
	WaitTime                  time.Duration
	Waiting                   int
}

// kind is a kind of callers in which somebody waits.
type kind struct {
	of           Kind
	callers      map[callerKey]*caller
	begun, fresh list.List     // of these *caller: the front of the first that is not empty is served next
	element      *list.Element // in the order of the kinds
}

// callerKey names a caller within its kind. Its requests that have begun wait apart from its new ones.
type callerKey struct {
	name  string
	begun bool
}

// caller is a caller for whom something waits.
type caller struct {
	callerKey
	waiting list.List     // of *waiter, in order of arrival
	order   *list.List    // of its kind
	element *list.Element // in order
}

// waiter is one that waits.
type waiter struct {
	granted chan struct{} // closed when a place is handed over
	since   time.Time
	given   bool // it has a limited time, of which it waits a part
	kind    *kind
	caller  *caller
	element *list.Element // among those that wait for the caller; nil once a place was handed over
}

// NewQueue returns a queue for places, 1 or more. At most most wait for one caller.
func NewQueue(places, most int) *Queue {
	return &Queue{most: most, free: places, kinds: map[Kind]*kind{}}
}

// Acquire takes a place for the caller of the context. Return the place with [Queue.Release]. Errors: [ErrFull], [ErrLate],
// [ErrGone], and the context's own if it ends first.
func (q *Queue) Acquire(ctx context.Context) error {
	asked := requestOf(ctx)
	mine, err := q.join(asked)
	if mine == nil {
		return err
	}
	var late <-chan time.Time
	if at := asked.until(); !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-mine.granted:
	case <-late:
		err = ErrLate
	case <-ctx.Done():
		err = ctx.Err()
	case <-asked.gone:
		err = ErrGone
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.WaitTime += time.Since(mine.since)
	switch {
	case err == nil:
		q.stats.Acquired++
		q.stats.Waited++
		return nil
	case mine.element == nil:
		q.release() // it was handed over at this moment
	default:
		q.remove(mine)
	}
	q.stats.GivenUp++
	return err
}

// join takes a free place, or else waits behind what waits for the caller already.
func (q *Queue) join(asked request) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		q.stats.Acquired++
		return nil, nil
	}
	k := q.kinds[asked.caller.Kind]
	if k == nil {
		k = &kind{of: asked.caller.Kind, callers: map[callerKey]*caller{}}
	}
	key := callerKey{asked.caller.Name, asked.hasBegun()}
	c := k.callers[key]
	if c == nil {
		c = &caller{callerKey: key, order: &k.fresh}
		if key.begun {
			c.order = &k.begun
		}
	}
	if c.waiting.Len() >= q.most {
		q.stats.GivenUp++
		return nil, ErrFull
	}
	if k.element == nil {
		q.kinds[k.of], k.element = k, q.order.PushBack(k)
	}
	if c.element == nil {
		k.callers[key], c.element = c, c.order.PushBack(c)
	}
	mine := &waiter{granted: make(chan struct{}), since: time.Now(), given: asked.begun != nil, kind: k, caller: c}
	mine.element = c.waiting.PushBack(mine)
	q.stats.Waiting++
	return mine, nil
}

// late is how long the first of a caller's new requests waits, at most, before the last is served instead. When more is asked for than can be
// done, some are given up, whoever is served: the first have little time left to be completed, and the last have all of theirs.
const late = 200 * time.Millisecond

// Add adds places, or takes some away: those in use once they are returned.
func (q *Queue) Add(places int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; places > 0; places-- {
		q.release()
	}
	q.free += places
}

// Release returns a place. The place goes to the first that waits for the first caller of the first kind, a request that has begun before new
// ones. This caller and this kind are served last from then on.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release()
}

func (q *Queue) release() {
	first := q.order.Front()
	if first == nil || q.free < 0 {
		q.free++
		return
	}
	k := first.Value.(*kind)
	order := &k.begun
	if order.Len() == 0 {
		order = &k.fresh
	}
	c := order.Front().Value.(*caller)
	next := c.waiting.Front().Value.(*waiter)
	if !c.begun && next.given && time.Since(next.since) > late {
		next = c.waiting.Back().Value.(*waiter)
	}
	q.order.MoveToBack(k.element)
	order.MoveToBack(c.element)
	q.remove(next)
	close(next.granted)
}

// remove ends the wait of a waiter, and forgets a caller and a kind for which nothing waits.
func (q *Queue) remove(mine *waiter) {
	k, c := mine.kind, mine.caller
	c.waiting.Remove(mine.element)
	mine.element = nil
	q.stats.Waiting--
	if c.waiting.Len() == 0 {
		c.order.Remove(c.element)
		delete(k.callers, c.callerKey)
	}
	if len(k.callers) == 0 {
		q.order.Remove(k.element)
		delete(q.kinds, k.of)
	}
}

// Stats returns what the queue has counted.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}
