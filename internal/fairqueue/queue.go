package fairqueue

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

var (
	// ErrFull says that too many wait already.
	ErrFull = errors.New("too many are waiting")
	// ErrLate says that no turn came while there was time left to use it.
	ErrLate = errors.New("no turn came in time")
	// ErrGone says that the caller has gone away.
	ErrGone = errors.New("the caller has gone away")
)

// Unbounded is the bound of lines that only the time of those who wait bounds.
const Unbounded = math.MaxInt

// Queue shares places between callers. It is safe for concurrent use.
type Queue struct {
	most int // waiting in one line

	mu    sync.Mutex
	free  int
	kinds map[Kind]*kind // in which somebody waits
	turns list.List      // of these *kind, in the order of their turns
	stats Stats
}

// Stats of a queue since its creation, and how many wait now.
type Stats struct {
	Acquired, Waited, GivenUp uint64 // places taken; those of them after a wait; attempts without a place
	WaitTime                  time.Duration
	Waiting                   int
}

// kind has the lines of its callers.
type kind struct {
	of    Kind
	lines map[string]*line
	turns list.List // of these *line, in the order of their turns
	place *list.Element
}

// line is what waits for one caller, in order of arrival.
type line struct {
	name    string
	waiting list.List // of *waiter
	place   *list.Element
}

// waiter waits in a line.
type waiter struct {
	turn  chan struct{} // closed when a place is handed over
	kind  *kind
	line  *line
	place *list.Element // nil once a place was handed over
}

// New is a queue for places, 1 or more, with a bound on how many of one caller wait.
func New(places, most int) *Queue {
	return &Queue{most: most, free: places, kinds: map[Kind]*kind{}}
}

// Acquire takes a place for the caller of the context. Return it with [Queue.Release]. Errors: [ErrFull], [ErrLate], [ErrGone],
// and the context's own if it ends first.
func (q *Queue) Acquire(ctx context.Context) error {
	mine, err := q.join(CallerOf(ctx))
	if mine == nil {
		return err
	}
	var late <-chan time.Time
	if at, ok := latest(ctx); ok {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	began := time.Now()
	select {
	case <-mine.turn:
	case <-late:
		err = ErrLate
	case <-ctx.Done():
		err = ctx.Err()
	case <-gone(ctx):
		err = ErrGone
	}
	if err != nil && !q.leave(mine) {
		q.Release() // it was handed over at this moment
	}
	q.count(time.Since(began), err == nil)
	return err
}

func (q *Queue) count(waited time.Duration, got bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.WaitTime += waited
	if got {
		q.stats.Acquired++
		q.stats.Waited++
	} else {
		q.stats.GivenUp++
	}
}

// join takes a free place, or the last one in the caller's line.
func (q *Queue) join(caller Caller) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		q.stats.Acquired++
		return nil, nil
	}
	of := q.kinds[caller.Kind]
	if of == nil {
		of = &kind{of: caller.Kind, lines: map[string]*line{}}
	}
	in := of.lines[caller.Name]
	if in == nil {
		in = &line{name: caller.Name}
	}
	if in.waiting.Len() >= q.most {
		q.stats.GivenUp++
		return nil, ErrFull
	}
	if of.place == nil {
		q.kinds[of.of], of.place = of, q.turns.PushBack(of)
	}
	if in.place == nil {
		of.lines[in.name], in.place = in, of.turns.PushBack(in)
	}
	mine := &waiter{turn: make(chan struct{}), kind: of, line: in}
	mine.place = in.waiting.PushBack(mine)
	q.stats.Waiting++
	return mine, nil
}

// leave reports whether the turn was still being waited for.
func (q *Queue) leave(mine *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if mine.place == nil {
		return false
	}
	q.remove(mine)
	return true
}

// Release returns a place. It goes to the first in the line whose turn it is, of the kind whose turn it is; both are last from
// then on.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.turns.Front()
	if first == nil {
		q.free++
		return
	}
	of := first.Value.(*kind)
	in := of.turns.Front().Value.(*line)
	next := in.waiting.Front().Value.(*waiter)
	q.turns.MoveToBack(of.place)
	of.turns.MoveToBack(in.place)
	q.remove(next)
	close(next.turn)
}

// remove takes a waiter out of its line, and forgets a line and a kind in which nobody waits.
func (q *Queue) remove(mine *waiter) {
	of, in := mine.kind, mine.line
	in.waiting.Remove(mine.place)
	mine.place = nil
	q.stats.Waiting--
	if in.waiting.Len() == 0 {
		of.turns.Remove(in.place)
		delete(of.lines, in.name)
	}
	if of.turns.Len() == 0 {
		q.turns.Remove(of.place)
		delete(q.kinds, of.of)
	}
}

// Stats of the queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}
