package fairqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

var (
	// ErrFull says that too many wait already.
	ErrFull = errors.New("too many are waiting")
	// ErrGone says that the caller has gone away.
	ErrGone = errors.New("the caller has gone away")
)

// Queue shares places between callers. It is safe for concurrent use.
type Queue struct {
	most int // waiting in one line

	mu    sync.Mutex
	free  int
	lines []*line // that somebody waits in, in the order of their turns
	stats Stats
}

// Stats of a queue since its creation, and how many wait now.
type Stats struct {
	Acquired, Waited, GivenUp uint64 // places taken; those of them after a wait; attempts without a place
	WaitTime                  time.Duration
	Waiting                   int
}

// line is what waits for one caller, in order of arrival.
type line struct {
	caller  string
	waiting []chan struct{} // closed when a place is handed over
}

// New is a queue for places, 1 or more, with a bound on how many of one caller wait.
func New(places, most int) *Queue { return &Queue{most: most, free: places} }

// Acquire takes a place for the caller of the context. Return it with [Queue.Release]. Errors: [ErrFull], [ErrGone], and the
// context's own if it ends first.
func (q *Queue) Acquire(ctx context.Context) error {
	turn, err := q.join(CallerOf(ctx))
	if turn == nil {
		return err
	}
	began := time.Now()
	select {
	case <-turn:
	case <-ctx.Done():
		err = ctx.Err()
	case <-gone(ctx):
		err = ErrGone
	}
	if err != nil && !q.leave(CallerOf(ctx), turn) {
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
func (q *Queue) join(caller string) (turn chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		q.stats.Acquired++
		return nil, nil
	}
	i := q.lineOf(caller)
	if i < 0 {
		i = len(q.lines)
		q.lines = append(q.lines, &line{caller: caller})
	}
	mine := q.lines[i]
	if len(mine.waiting) >= q.most {
		q.stats.GivenUp++
		return nil, ErrFull
	}
	turn = make(chan struct{})
	mine.waiting = append(mine.waiting, turn)
	return turn, nil
}

// leave reports whether the turn was still being waited for.
func (q *Queue) leave(caller string, turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.lineOf(caller)
	if i < 0 {
		return false
	}
	mine := q.lines[i]
	j := slices.Index(mine.waiting, turn)
	if j < 0 {
		return false
	}
	mine.waiting = slices.Delete(mine.waiting, j, j+1)
	if len(mine.waiting) == 0 {
		q.lines = slices.Delete(q.lines, i, i+1)
	}
	return true
}

// Release returns a place. It goes to the first in the line whose turn it is; that line is last from then on.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		q.free++
		return
	}
	next := q.lines[0]
	close(next.waiting[0])
	next.waiting = slices.Delete(next.waiting, 0, 1)
	q.lines = slices.Delete(q.lines, 0, 1)
	if len(next.waiting) > 0 {
		q.lines = append(q.lines, next)
	}
}

func (q *Queue) lineOf(caller string) int {
	return slices.IndexFunc(q.lines, func(l *line) bool { return l.caller == caller })
}

// Stats of the queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := q.stats
	for _, l := range q.lines {
		stats.Waiting += len(l.waiting)
	}
	return stats
}
